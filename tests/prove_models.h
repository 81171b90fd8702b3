/* tests/prove_models.h - level-1 models for the tests of the prover; text without header and mesh. */
#ifndef APC_TESTS_PROVE_MODELS_H
#define APC_TESTS_PROVE_MODELS_H

static const char *const block =
    "symbol b\n"
    "param \"emb\" : f32[10, 8] = zeros\nparam \"g\" : f32[8] = zeros\nparam \"wq\" : f32[8, 4, 2] = zeros\n"
    "param \"wk\" : f32[8, 4, 2] = zeros\nparam \"wv\" : f32[8, 4, 2] = zeros\nparam \"wo\" : f32[4, 2, 8] = zeros\n"
    "param \"bo\" : f32[8] = zeros\nparam \"w1\" : f32[8, 12] = zeros\nparam \"b1\" : f32[12] = zeros\nparam \"w2\" : "
    "f32[12, 8] = zeros\n"
    "func @main level 1 {\n"
    "  %ids = input {name=\"ids\"} : i64[b, 6]\n"
    "  %emb = param {name=\"emb\"} : f32[10, 8]\n"
    "  %x = gather %emb, %ids {axis=0, start=0} : f32[b, 6, 8]\n"
    "  %n = norm %x {eps=1e-05, kind=\"layer\"} : f32[b, 6, 8]\n"
    "  %g = param {name=\"g\"} : f32[8]\n"
    "  %gb = broadcast %g {dims=[2]} : f32[b, 6, 8]\n"
    "  %ng = mul %n, %gb : f32[b, 6, 8]\n"
    "  %wq = param {name=\"wq\"} : f32[8, 4, 2]\n"
    "  %wk = param {name=\"wk\"} : f32[8, 4, 2]\n"
    "  %wv = param {name=\"wv\"} : f32[8, 4, 2]\n"
    "  %q = dot %ng, %wq {spec=\"bsd,dhk->bshk\"} : f32[b, 6, 4, 2]\n"
    "  %k = dot %ng, %wk {spec=\"bsd,dhk->bshk\"} : f32[b, 6, 4, 2]\n"
    "  %v = dot %ng, %wv {spec=\"bsd,dhk->bshk\"} : f32[b, 6, 4, 2]\n"
    "  %s = dot %q, %k {spec=\"bshk,bthk->bhst\"} : f32[b, 4, 6, 6]\n"
    "  %scale = const {value=0.5} : f32[b, 4, 6, 6]\n"
    "  %ss = mul %s, %scale : f32[b, 4, 6, 6]\n"
    "  %i = iota {axis=2, start=0} : i64[b, 4, 6, 6]\n"
    "  %j = iota {axis=3, start=0} : i64[b, 4, 6, 6]\n"
    "  %mask = le %j, %i : bool[b, 4, 6, 6]\n"
    "  %low = const {value=-1e30} : f32[b, 4, 6, 6]\n"
    "  %sm = select %mask, %ss, %low : f32[b, 4, 6, 6]\n"
    "  %p = softmax %sm {axis=3} : f32[b, 4, 6, 6]\n"
    "  %a = dot %p, %v {spec=\"bhst,bthk->bshk\"} : f32[b, 6, 4, 2]\n"
    "  %wo = param {name=\"wo\"} : f32[4, 2, 8]\n"
    "  %o = dot %a, %wo {spec=\"bshk,hkd->bsd\"} : f32[b, 6, 8]\n"
    "  %bo = param {name=\"bo\"} : f32[8]\n"
    "  %bob = broadcast %bo {dims=[2]} : f32[b, 6, 8]\n"
    "  %ob = add %o, %bob : f32[b, 6, 8]\n"
    "  %r = add %x, %ob : f32[b, 6, 8]\n"
    "  %w1 = param {name=\"w1\"} : f32[8, 12]\n"
    "  %h = dot %r, %w1 {spec=\"bsd,df->bsf\"} : f32[b, 6, 12]\n"
    "  %b1 = param {name=\"b1\"} : f32[12]\n"
    "  %b1b = broadcast %b1 {dims=[2]} : f32[b, 6, 12]\n"
    "  %hb = add %h, %b1b : f32[b, 6, 12]\n"
    "  %act = tanh %hb : f32[b, 6, 12]\n"
    "  %w2 = param {name=\"w2\"} : f32[12, 8]\n"
    "  %y = dot %act, %w2 {spec=\"bsf,fd->bsd\"} : f32[b, 6, 8]\n"
    "  %ry = add %r, %y : f32[b, 6, 8]\n"
    "  %m = reduce %ry {axes=[1], op=sum} : f32[b, 8]\n"
    "  %count = size {expr=6} : f32[b, 8]\n"
    "  %mean = div %m, %count : f32[b, 8]\n"
    "  %bi = iota {axis=0, start=0} : f32[b, 8]\n"
    "  %mbi = mul %mean, %bi : f32[b, 8]\n"
    "  output \"y\" %ry\n"
    "  output \"mean\" %mbi\n"
    "}\n";

static const char *const shapes =
    "param \"w\" : f32[12, 6] = zeros\n"
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[7, 12]\n"
    "  %w = param {name=\"w\"} : f32[12, 6]\n"
    "  %d = dot %x, %w {spec=\"ab,bc->ac\"} : f32[7, 6]\n"
    "  %t = transpose %d {perm=[1, 0]} : f32[6, 7]\n"
    "  %s = slice %t {starts=[1, 2], strides=[1, 1]} : f32[4, 5]\n"
    "  %p = pad %s {low=[1, 0], high=[2, 3], value=0} : f32[7, 8]\n"
    "  %c = concat %p, %p {axis=1} : f32[7, 16]\n"
    "  %h = reshape %c : f32[7, 4, 4]\n"
    "  %e = exp %h : f32[7, 4, 4]\n"
    "  %m = reshape %e : f32[7, 16]\n"
    "  %mx = reduce %m {axes=[1], op=max} : f32[7]\n"
    "  %mb = broadcast %mx {dims=[0]} : f32[7, 16]\n"
    "  %z = sub %m, %mb : f32[7, 16]\n"
    "  %rand = random {extents=[7, 16], kind=\"uniform\", seed=7, starts=[0, 0]} : f32[7, 16]\n"
    "  %zr = mul %z, %rand : f32[7, 16]\n"
    "  %tot = reduce %zr {axes=[0, 1], op=sum} : f32[]\n"
    "  output \"z\" %zr\n"
    "  output \"tot\" %tot\n"
    "}\n";

static const char *const cached =
    "state \"cache\" : f32[4, 8, 6] = 0\n"
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[4, 2, 6]\n"
    "  %pos = input {name=\"pos\"} : i64[]\n"
    "  %old = read {name=\"cache\"} : f32[4, 8, 6]\n"
    "  %new = update %old, %x, %pos {axis=1, start=0} : f32[4, 8, 6]\n"
    "  write \"save\" %new {name=\"cache\"}\n"
    "  %k = transpose %new {perm=[0, 2, 1]} : f32[4, 6, 8]\n"
    "  %s = reduce %k {axes=[2], op=sum} : f32[4, 6]\n"
    "  output \"s\" %s\n"
    "}\n";

/* Scanned inputs, stacked results, carries that are swapped, a nested loop, rounds and a condition that depend on
 * data. */
static const char *const recurrent =
    "symbol b\n"
    "param \"wx\" : f32[3, 8] = zeros\nparam \"wh\" : f32[8, 8] = zeros\n"
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[6, b, 3]\n"
    "  %h0 = input {name=\"h0\"} : f32[b, 8]\n"
    "  %wx = param {name=\"wx\"} : f32[3, 8]\n"
    "  %wh = param {name=\"wh\"} : f32[8, 8]\n"
    "  %sum = reduce %wh {axes=[0, 1], op=sum} : f32[]\n"
    "  %most = abs %sum : f32[]\n"
    "  %four = const {value=4} : f32[]\n"
    "  %rounds = add %most, %four : f32[]\n"
    "  %n = cast %rounds {to=i64} : i64[]\n"
    "  %zero = const {value=0} : f32[]\n"
    "  %zeros = const {value=0} : f32[b, 8]\n"
    "  %stack = const {value=0} : f32[6, b, 8]\n"
    "  %t = loop %n {trips=6} : i64[]\n"
    "  %h = carry %h0 : f32[b, 8]\n"
    "  %g = carry %zeros : f32[b, 8]\n"
    "  %y = carry %stack : f32[6, b, 8]\n"
    "  %s = carry %zero : f32[]\n"
    "  %xt = gather %x, %t {axis=0, start=0} : f32[b, 3]\n"
    "  %xw = dot %xt, %wx {spec=\"bi,id->bd\"} : f32[b, 8]\n"
    "  %two = size {expr=2} : i64[]\n"
    "  %u = loop %two {trips=2} : i64[]\n"
    "  %k = carry %h : f32[b, 8]\n"
    "  %kw = dot %k, %wh {spec=\"bk,kd->bd\"} : f32[b, 8]\n"
    "  %kx = add %kw, %xw : f32[b, 8]\n"
    "  %kt = tanh %kx : f32[b, 8]\n"
    "  repeat \"inner\" %u\n"
    "  %kl = leave %k, %kt : f32[b, 8]\n"
    "  %h1 = sub %kl, %g : f32[b, 8]\n"
    "  %row = reshape %h1 : f32[1, b, 8]\n"
    "  %y1 = update %y, %row, %t {axis=0, start=0} : f32[6, b, 8]\n"
    "  %s1 = add %s, %most : f32[]\n"
    "  %again = lt %s1, %four : bool[]\n"
    "  repeat \"outer\" %t, %again\n"
    "  %hl = leave %h, %h1 : f32[b, 8]\n"
    "  %gl = leave %g, %h : f32[b, 8]\n"
    "  %yl = leave %y, %y1 : f32[6, b, 8]\n"
    "  %sl = leave %s, %s1 : f32[]\n"
    "  output \"h\" %hl\n"
    "  output \"g\" %gl\n"
    "  output \"y\" %yl\n"
    "}\n";

/* Every windowed operation: strided, padded, grouped, with its own order of dimensions. */
#define WINDOWED(symbols, IMAGE, STEPS, HALF, GRID) \
  symbols \
      "param \"w\" : f32[3, 4, 6] = normal 1 seed 1\nparam \"v\" : f32[2, 6, 4] = normal 1 seed 2\n" \
      "func @main level 1 {\n" \
      "  %x = input {name=\"x\"} : f32[2, " IMAGE \
      ", 4]\n" \
      "  %w = param {name=\"w\"} : f32[3, 4, 6]\n" \
      "  %v = param {name=\"v\"} : f32[2, 6, 4]\n" \
      "  %c = conv %x, %w {spec=\"nHc,Hco->Hno\", starts=[-1], strides=[2], dilations=[1]} : f32[" STEPS \
      ", 2, 6]\n" \
      "  %p = pool %c {op=max, axes=[0], window=[3], starts=[-1], strides=[1], dilations=[1]} : f32[" STEPS \
      ", 2, 6]\n" \
      "  %q = pool %c {op=sum, axes=[0, 2], window=[2, 3], starts=[0, -1], strides=[2, 1], dilations=[2, 1]} : " \
      "f32[" HALF \
      ", 2, 6]\n" \
      "  %t = conv_transpose %p, %v {spec=\"Hno,Hoc->nHc\", starts=[-1], strides=[2], dilations=[2]} : f32[2, " IMAGE \
      ", 4]\n" \
      "  %r = add %t, %x : f32[2, " IMAGE \
      ", 4]\n" \
      "  %f = conv_filter %r, %p {spec=\"nHc,Hno->Hco\", starts=[-1], strides=[2], dilations=[1]} : f32[3, 4, 6]\n" \
      "  %m = pool_grad %c, %p {axes=[0], window=[3], starts=[-1], strides=[1], dilations=[1]} : f32[" STEPS \
      ", 2, 6]\n" \
      "  %g = conv %r, %x {spec=\"nHc,nHc->Hc\", starts=[-6], strides=[3], dilations=[1]} : f32[" GRID \
      ", 4]\n" \
      "  output \"q\" %q\n" \
      "  output \"f\" %f\n" \
      "  output \"g\" %g\n" \
      "  output \"m\" %m\n" \
      "}\n"

static const char *const windowed = WINDOWED("", "13", "7", "4", "5");
static const char *const windowed_late = WINDOWED("symbol b\n", "b + 8", "b + 2", "b - 1", "b");

/* Sorting, prefix sums, and rows selected by indices. */
static const char *const indexed =
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[6, 8]\n"
    "  %i = input {name=\"i\"} : i64[6, 8]\n"
    "  %e = input {name=\"e\"} : i64[6]\n"
    "  %a = argsort %x {axis=1, descending=1} : i64[6, 8]\n"
    "  %s = take %x, %a {axis=1, start=0} : f32[6, 8]\n"
    "  %v, %w = topk %i {axis=0, descending=1, k=6} : i64[6, 8], i64[6, 8]\n"
    "  %t = take %x, %w {axis=0, start=0} : f32[6, 8]\n"
    "  %u, %l = topk %t {axis=1, descending=0, k=5} : f32[6, 5], i64[6, 5]\n"
    "  %c = scan %s {op=sum, axis=1, exclusive=1, reverse=0} : f32[6, 8]\n"
    "  %m = scan %x {op=max, axis=0, exclusive=0, reverse=1} : f32[6, 8]\n"
    "  %p = put %c, %i {op=sum, axis=1, start=0} : f32[6, 8]\n"
    "  %n = put %m, %i {op=min, axis=0, start=0} : f32[4, 8]\n"
    "  %g = scatter %p, %e {op=sum, axis=0, start=0} : f32[8, 8]\n"
    "  %h = scatter %m, %e {op=max, axis=0, start=0} : f32[8, 8]\n"
    "  %k = take %g, %a {axis=0, start=0} : f32[6, 8]\n"
    "  %b = gather %h, %e {axis=0, start=0} : f32[6, 8]\n"
    "  %o = add %k, %b : f32[6, 8]\n"
    "  output \"n\" %n\n"
    "  output \"o\" %o\n"
    "  output \"v\" %v\n"
    "  output \"u\" %u\n"
    "  output \"l\" %l\n"
    "}\n";

/* Attention with all of its gradients: in one the keys are cut, in the others the queries. */
static const char *const attended =
    "func @main level 1 {\n"
    "  %q = input {name=\"q\"} : f32[4, 2, 2, 6, 3]\n"
    "  %k = input {name=\"k\"} : f32[4, 2, 8, 3]\n"
    "  %v = input {name=\"v\"} : f32[4, 2, 8, 5]\n"
    "  %x = input {name=\"x\"} : f32[4, 8]\n"
    "  %d = input {name=\"d\"} : f32[4, 2, 2, 6, 5]\n"
    "  %step = input {name=\"step\"} : i64[]\n"
    "  %i = iota {axis=0, start=0} : i64[6]\n"
    "  %j = iota {axis=0, start=0} : i64[8]\n"
    "  %n = const {value=7} : i64[]\n"
    "  %o, %m, %l = attention %q, %k, %v, %i, %j, %n, %x {scale=0.5, causal=1, bias=\"bt\", sums=1} : "
    "f32[4, 2, 2, 6, 5], f32[4, 2, 2, 6], f32[4, 2, 2, 6]\n"
    "  %u = random_keyed %step {kind=\"uniform\", seed=1, stream=2, starts=[0, 0, 0, 0, 0], "
    "extents=[4, 2, 2, 6, 5]} : f32[4, 2, 2, 6, 5]\n"
    "  %du = mul %d, %u : f32[4, 2, 2, 6, 5]\n"
    "  %dq = attention_grad %q, %k, %v, %i, %j, %n, %x, %o, %m, %l, %du {of=\"q\", scale=0.5, causal=1, bias=\"bt\"} : "
    "f32[4, 2, 2, 6, 3]\n"
    "  %dk = attention_grad %q, %k, %v, %i, %j, %n, %x, %o, %m, %l, %du {of=\"k\", scale=0.5, causal=1, bias=\"bt\"} : "
    "f32[4, 2, 8, 3]\n"
    "  %dv = attention_grad %q, %k, %v, %i, %j, %n, %x, %o, %m, %l, %du {of=\"v\", scale=0.5, causal=1, bias=\"bt\"} : "
    "f32[4, 2, 8, 5]\n"
    "  output \"dq\" %dq\n"
    "  output \"dk\" %dk\n"
    "  output \"dv\" %dv\n"
    "}\n";

/* Rows multiplied by the matrices that their indices select. */
static const char *const mixture =
    "symbol b\n"
    "param \"router\" : f32[4, 6] = zeros\nparam \"gate\" : f32[6, 4, 5] = zeros\nparam \"up\" : f32[6, 4, 5] = zeros\n"
    "param \"down\" : f32[6, 5, 4] = zeros\nparam \"adapter\" : f32[6, 4, 3] = zeros\n"
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[b, 3, 4]\n"
    "  %router = param {name=\"router\"} : f32[4, 6]\n"
    "  %score = dot %x, %router {spec=\"bsd,de->bse\"} : f32[b, 3, 6]\n"
    "  %top, %expert = topk %score {axis=2, descending=1, k=2} : f32[b, 3, 2], i64[b, 3, 2]\n"
    "  %share = softmax %top {axis=2} : f32[b, 3, 2]\n"
    "  %rows = broadcast %x {dims=[0, 1, 3]} : f32[b, 3, 2, 4]\n"
    "  %gate = param {name=\"gate\"} : f32[6, 4, 5]\n"
    "  %up = param {name=\"up\"} : f32[6, 4, 5]\n"
    "  %down = param {name=\"down\"} : f32[6, 5, 4]\n"
    "  %made = grouped_mlp %rows, %expert, %gate, %up, %down {kind=\"silu\", start=0} : f32[b, 3, 2, 4]\n"
    "  %y = dot %made, %share {spec=\"bskd,bsk->bsd\"} : f32[b, 3, 4]\n"
    "  %adapter = param {name=\"adapter\"} : f32[6, 4, 3]\n"
    "  %a = grouped_dot %rows, %expert, %adapter {start=0} : f32[b, 3, 2, 3]\n"
    "  output \"y\" %y\n"
    "  output \"a\" %a\n"
    "}\n";

#endif
