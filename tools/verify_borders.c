/* tools/verify_borders.c - see verify_borders.h.
 *
 * The sizes exceed the block sizes of codegen/cpu (blocks of 1,024 elements in sums, loops of 16,384 elements, tiles of
 * 64 and chunks of 512 keys; 512 places, 32 or 64 lanes of a convolution, 16 of a pool's gradient; 240 rows, 256 terms
 * and 128 columns of a grouped product, or 16 terms and 1,024 columns with few rows; 64 columns of scatters and scans,
 * sorted runs; tiles of 32 x 32; copies of 64 KiB), runtime/device (1,024 terms and 96 Ki elements of an operand in
 * products) and runtime/comm (pieces of 32 KiB, buffers of 256 KiB between two ranks).  A rank sends far more than its
 * buffer holds.
 */
#include "tools/verify_borders.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/fill.h"
#include "base/hash.h"
#include "ir/ops.h"
#include "tools/reference.h"

enum { MOST_RANKS = 3 };

/* Lines to run for models that have an operation of one of these kinds; without kinds, always. */
typedef struct Part {
  OpKind kinds[8];
  const char *text, *plan; /* lines of IR; lines of the plan */
  const char *weights;     /* lines of the module; NULL if none */
} Part;

static const Part parts[] = {
    {.kinds = {0},
     /* sums over ranks, then all to all, then all of it everywhere; sums of columns, which a rank has in pieces */
     .text = "  %many.a = input {name=\"many.a\"} : f32[400, 6]\n"
             "  %many.b = input {name=\"many.b\"} : f32[6, 500]\n"
             "  %many = dot %many.a, %many.b {spec=\"mk,kn->mn\"} : f32[400, 500]\n"
             "  %many.rows = neg %many : f32[400, 500]\n"
             "  %many.columns = exp %many.rows : f32[400, 500]\n"
             "  %many.part = dot %many.a, %many.b {spec=\"mk,kn->mn\"} : f32[400, 500]\n"
             "  %many.own = abs %many.part : f32[400, 500]\n"
             "  output \"many.own\" %many.own\n"
             "  output \"many\" %many\n"
             "  output \"many.columns\" %many.columns\n",
     .plan =
         "op \"many.a\" {x1:r}\nop \"many.b\" {x0:r}\nop \"many\" {k:r}\nop \"many.rows\" {x0:r}\nop \"many.columns\" "
         "{x1:r}\nop \"many.part\" {k:r}\nop \"many.own\" {x1:r}\n"},
    {.kinds = {OP_reduce, OP_softmax, OP_norm, OP_cross_entropy, OP_scan},
     .text = "  %sum.of = input {name=\"sum.of\"} : f32[6, 5200]\n"
             "  %sum = reduce %sum.of {axes=[1], op=sum} : f32[6]\n"
             "  %sum.rows = reduce %sum.of {axes=[0], op=sum} : f32[5200]\n"
             "  %sum.part = softmax %sum.of {axis=1} : f32[6, 5200]\n"
             "  %sum.tall = input {name=\"sum.tall\"} : f32[2600, 20]\n"
             "  %sum.columns = reduce %sum.tall {axes=[0], op=sum} : f32[20]\n"
             "  %sum.all = reduce %sum.tall {axes=[0, 1], op=sum} : f32[]\n"
             "  %sum.vector = input {name=\"sum.vector\"} : f32[5200]\n"
             "  %sum.one = reduce %sum.vector {axes=[0], op=sum} : f32[]\n"
             "  %sum.long = input {name=\"sum.long\"} : f32[2, 7000]\n"
             "  %sum.cut = reduce %sum.long {axes=[1], op=sum} : f32[2]\n"
             "  output \"sum.one\" %sum.one\n"
             "  output \"sum.cut\" %sum.cut\n"
             "  output \"sum\" %sum\n"
             "  output \"sum.rows\" %sum.rows\n"
             "  output \"sum.part\" %sum.part\n"
             "  output \"sum.columns\" %sum.columns\n"
             "  output \"sum.all\" %sum.all\n",
     .plan = "op \"sum.of\" {x0:r}\nop \"sum\" {x0:r}\nop \"sum.part\" {x0:r}\nop \"sum.long\" {x1:r}\nop \"sum.cut\" "
             "{r1:r}\n"},
    {.kinds = {OP_dot},
     .text = "  %dot.a = input {name=\"dot.a\"} : f32[14, 1100]\n"
             "  %dot.b = input {name=\"dot.b\"} : f32[1100, 300]\n"
             "  %dot.c = input {name=\"dot.c\"} : f32[300, 70]\n"
             "  %dot.d = input {name=\"dot.d\"} : f32[270, 300]\n"
             "  %dot = dot %dot.a, %dot.b {spec=\"mk,kn->mn\"} : f32[14, 300]\n"
             "  %dot.tall = dot %dot.d, %dot.c {spec=\"mk,kn->mn\"} : f32[270, 70]\n"
             "  output \"dot\" %dot\n"
             "  output \"dot.tall\" %dot.tall\n"
             "  %dot.w = param {name=\"dot.w\"} : f32[1100, 300]\n"
             "  %dot.of = dot %dot.a, %dot.w {spec=\"mk,kn->mn\"} : f32[14, 300]\n"
             "  output \"dot.of\" %dot.of\n",
     .plan = "",
     .weights = "param \"dot.w\" : f32[1100, 300] = normal 0.5 seed 7\n"},
    {.kinds = {OP_attention, OP_attention_grad},
     .text = "  %look.q = input {name=\"look.q\"} : f32[1, 2, 1, 70, 8]\n"
             "  %look.k = input {name=\"look.k\"} : f32[1, 2, 1100, 8]\n"
             "  %look.v = input {name=\"look.v\"} : f32[1, 2, 1100, 8]\n"
             "  %look.at = iota {axis=0, start=0} : i64[70]\n"
             "  %look.far = const {value=1030} : i64[70]\n"
             "  %look.i = add %look.at, %look.far : i64[70]\n"
             "  %look.j = iota {axis=0, start=0} : i64[1100]\n"
             "  %look.n = const {value=1090} : i64[]\n"
             "  %look, %look.m, %look.l = attention %look.q, %look.k, %look.v, %look.i, %look.j, %look.n "
             "{scale=0.35, causal=1, sums=1} : f32[1, 2, 1, 70, 8], f32[1, 2, 1, 70], f32[1, 2, 1, 70]\n"
             "  %look.one = input {name=\"look.one\"} : f32[1, 2, 1, 1, 8]\n"
             "  %look.end = const {value=1100} : i64[1]\n"
             "  %look.few = attention %look.one, %look.k, %look.v, %look.end, %look.j, %look.n {scale=0.35, causal=1} "
             ": f32[1, 2, 1, 1, 8]\n"
             "  output \"look\" %look\n"
             "  output \"look.few\" %look.few\n",
     .plan = ""},
    {.kinds = {OP_attention_grad},
     .text = "  %turn = input {name=\"turn\"} : f32[1, 2, 1, 70, 8]\n"
#define TURN(of, shape) \
  "  %turn." of \
  " = attention_grad %look.q, %look.k, %look.v, %look.i, %look.j, %look.n, %look, %look.m, %look.l, %turn " \
  "{of=\"" of "\", scale=0.35, causal=1} : f32[" shape "]\n  output \"turn." of "\" %turn." of "\n"
     TURN("q", "1, 2, 1, 70, 8") TURN("k", "1, 2, 1100, 8") TURN("v", "1, 2, 1100, 8"),
#undef TURN
     .plan = ""},
    {.kinds = {OP_conv, OP_conv_filter, OP_conv_transpose},
     .text = "  %conv.image = input {name=\"conv.image\"} : f32[3, 20, 20, 5]\n"
             "  %conv.kernel = input {name=\"conv.kernel\"} : f32[70, 5, 3, 3]\n"
             "  %conv = conv %conv.image, %conv.kernel {spec=\"nHWi,oiHW->nHWo\", starts=[0, 0], strides=[1, "
             "1], dilations=[1, 1]} : f32[3, 18, 18, 70]\n"
             "  output \"conv\" %conv\n"
             "  %conv.each = input {name=\"conv.each\"} : f32[1, 20, 27, 70, 1]\n"
             "  %conv.taps = input {name=\"conv.taps\"} : f32[3, 3, 70, 1, 1]\n"
             "  %conv.lanes = conv %conv.each, %conv.taps {spec=\"nHWgc,HWgco->nHWgo\", starts=[-1, -1], "
             "strides=[1, 1], dilations=[1, 1]} : f32[1, 20, 27, 70, 1]\n"
             "  output \"conv.lanes\" %conv.lanes\n",
     .plan = ""},
    {.kinds = {OP_conv_filter, OP_conv_transpose},
     .text = "  %back.image = input {name=\"back.image\"} : f32[2, 20, 20, 40]\n"
             "  %back.of = input {name=\"back.of\"} : f32[2, 18, 18, 4]\n"
             "  %back.kernel = input {name=\"back.kernel\"} : f32[4, 40, 3, 3]\n"
             "  %back = conv_transpose %back.of, %back.kernel {spec=\"nHWo,oiHW->nHWi\", starts=[0, 0], "
             "strides=[1, 1], dilations=[1, 1]} : f32[2, 20, 20, 40]\n"
             "  %back.filter = conv_filter %back.image, %back.of {spec=\"nHWi,nHWo->oiHW\", starts=[0, 0], "
             "strides=[1, 1], dilations=[1, 1]} : f32[4, 40, 3, 3]\n"
             "  output \"back\" %back\n"
             "  output \"back.filter\" %back.filter\n",
     .plan = "op \"back.image\" {x0:r}\n"
             "op \"back.of\" {x0:r}\n"
             "op \"back\" {n:r}\n"
             "op \"back.filter\" {n:r}\n"},
    {.kinds = {OP_pool, OP_pool_grad},
     /* rounded: the first of equal ones is a largest; to integers, so that it is the same one in 16 bits */
     .text = "  %pool.any = input {name=\"pool.any\"} : f32[2, 9, 9, 37]\n"
             "  %pool.near = round %pool.any : f32[2, 9, 9, 37]\n"
             "  %pool.whole = cast %pool.near {to=i64} : i64[2, 9, 9, 37]\n"
             "  %pool.of = cast %pool.whole {to=f32} : f32[2, 9, 9, 37]\n"
             "  %pool = pool %pool.of {op=max, axes=[1, 2], window=[3, 3], starts=[-1, -1], strides=[2, 2], "
             "dilations=[1, 1]} : f32[2, 5, 5, 37]\n"
             "  %pool.first = input {name=\"pool.first\"} : f32[2, 3, 9, 70]\n"
             "  %pool.lines = pool %pool.first {op=sum, axes=[2, 3], window=[3, 3], starts=[-1, -1], "
             "strides=[2, 2], dilations=[1, 1]} : f32[2, 3, 5, 35]\n"
             "  output \"pool\" %pool\n"
             "  output \"pool.lines\" %pool.lines\n",
     .plan = ""},
    {.kinds = {OP_pool_grad},
     .text = "  %pool.turn = input {name=\"pool.turn\"} : f32[2, 5, 5, 37]\n"
             "  %pool.grad = pool_grad %pool.of, %pool.turn {axes=[1, 2], window=[3, 3], starts=[-1, -1], "
             "strides=[2, 2], dilations=[1, 1]} : f32[2, 9, 9, 37]\n"
             "  output \"pool.grad\" %pool.grad\n",
     .plan = ""},
    {.kinds = {OP_grouped_dot, OP_grouped_mlp},
     /* rows, then terms, then columns of several blocks; each rank has some of the groups */
     .text = "  %group.x = input {name=\"group.x\"} : f32[260, 3]\n"
             "  %group.w = input {name=\"group.w\"} : f32[2, 3, 140]\n"
             "  %group.row = iota {axis=0, start=0} : i64[260]\n"
             "  %group.most = const {value=245} : i64[260]\n"
             "  %group.late = ge %group.row, %group.most : bool[260]\n"
             "  %group.i = cast %group.late {to=i64} : i64[260]\n"
             "  %group = grouped_dot %group.x, %group.i, %group.w {start=0} : f32[260, 140]\n"
             "  %group.long = input {name=\"group.long\"} : f32[17, 300]\n"
             "  %group.v = input {name=\"group.v\"} : f32[2, 300, 5]\n"
             "  %group.at = iota {axis=0, start=0} : i64[17]\n"
             "  %group.two = const {value=2} : i64[17]\n"
             "  %group.j = mod %group.at, %group.two : i64[17]\n"
             "  %group.deep = grouped_dot %group.long, %group.j, %group.v {start=0} : f32[17, 5]\n"
             "  %group.few = input {name=\"group.few\"} : f32[4, 20]\n"
             "  %group.u = input {name=\"group.u\"} : f32[4, 20, 1030]\n"
             "  %group.k = iota {axis=0, start=0} : i64[4]\n"
             "  %group.wide = grouped_dot %group.few, %group.k, %group.u {start=0} : f32[4, 1030]\n"
             "  output \"group\" %group\n"
             "  output \"group.deep\" %group.deep\n"
             "  output \"group.wide\" %group.wide\n",
     .plan = "op \"group.w\" {x0:r}\n"
             "op \"group\" {v:r}\n"
             "op \"group.u\" {x0:r}\n"
             "op \"group.wide\" {v:r}\n"},
    {.kinds = {OP_packed_dot},
     /* rows of several tiles, an odd number of panels; ranks have groups, then panels */
     .text = "  %packed.x = input {name=\"packed.x\"} : f32[7, 4, 4, 8]\n"
             "  %packed.q = input {name=\"packed.q\"} : u8[5, 4, 4, 16, 4]\n"
             "  %packed.s = input {name=\"packed.s\"} : bf16[5, 4, 16]\n"
             "  %packed = packed_dot %packed.x, %packed.q, %packed.s {bits=4} : f32[7, 5, 16]\n"
             "  %packed.y = input {name=\"packed.y\"} : f32[1, 2, 16, 4]\n"
             "  %packed.p = input {name=\"packed.p\"} : u8[3, 2, 16, 16, 4]\n"
             "  %packed.t = input {name=\"packed.t\"} : bf16[3, 2, 16]\n"
             "  %packed.one = packed_dot %packed.y, %packed.p, %packed.t {bits=8} : f32[1, 3, 16]\n"
             "  output \"packed\" %packed\n"
             "  output \"packed.one\" %packed.one\n",
     .plan = ""},
    {.kinds = {OP_scatter, OP_put, OP_take, OP_argsort, OP_topk, OP_scan},
     .text = "  %index.x = input {name=\"index.x\"} : f32[9, 70]\n"
             "  %index.line = input {name=\"index.line\"} : f32[300]\n"
             "  %index.row = iota {axis=0, start=0} : i64[9]\n"
             "  %index.four = const {value=4} : i64[9]\n"
             "  %index.i = mod %index.row, %index.four : i64[9]\n"
             "  %index.j = broadcast %index.i {dims=[0]} : i64[9, 70]\n"
             "  %index.scatter = scatter %index.x, %index.i {op=sum, axis=0, start=0} : f32[4, 70]\n"
             "  %index.put = put %index.x, %index.j {op=sum, axis=0, start=0} : f32[4, 70]\n"
             "  %index.take = take %index.x, %index.j {axis=0, start=0} : f32[9, 70]\n"
             "  %index.scan = scan %index.x {op=sum, axis=0, exclusive=0, reverse=0} : f32[9, 70]\n"
             "  %index.sort = argsort %index.line {axis=0, descending=0} : i64[300]\n"
             "  %index.most, %index.places = topk %index.line {axis=0, descending=1, k=150} : f32[150], "
             "i64[150]\n"
             "  output \"index.scatter\" %index.scatter\n"
             "  output \"index.put\" %index.put\n"
             "  output \"index.take\" %index.take\n"
             "  output \"index.scan\" %index.scan\n"
             "  output \"index.sort\" %index.sort\n"
             "  output \"index.most\" %index.most\n"
             "  output \"index.places\" %index.places\n",
     .plan = ""},
    {.kinds = {OP_transpose},
     .text = "  %across.of = input {name=\"across.of\"} : f32[70, 90]\n"
             "  %across = transpose %across.of {perm=[1, 0]} : f32[90, 70]\n"
             "  %across.less = neg %across : f32[90, 70]\n"
             "  output \"across\" %across.less\n",
     .plan = ""},
    {.kinds = {OP_update},
     .text = "  %update.of = input {name=\"update.of\"} : f32[2, 10000]\n"
             "  %update.by = input {name=\"update.by\"} : f32[2, 3]\n"
             "  %update.at = const {value=9000} : i64[]\n"
             "  %update = update %update.of, %update.by, %update.at {axis=1, start=0} : f32[2, 10000]\n"
             "  output \"update.of\" %update.of\n"
             "  output \"update\" %update\n",
     .plan = ""},
};

/* ---- the program's texts */

static bool has_kind(const Build *b, const Part *p) {
  if (!p->kinds[0]) return true;
  for (int k = 0; k < b->nentries; k++)
    for (size_t i = 0; i < b->l1s[k]->ops.n; i++)
      for (int n = 0; p->kinds[n]; n++)
        if (b->l1s[k]->ops.items[i].kind == p->kinds[n]) return true;
  return false;
}

static bool write_text(Tool *t, const char *path, const Text *text) {
  return file_write(t->diags, path, 0600, text->data, text->n);
}

static bool write_model(Tool *t, const Build *like, const char *path, Text *plan) {
  Text model = {.arena = t->arena};
  text_add(&model, "apc.ir 1\n");
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (parts[i].weights && has_kind(like, &parts[i])) text_add(&model, parts[i].weights);
  text_add(&model, "func @main level 1 {\n");
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (!has_kind(like, &parts[i])) continue;
    text_add(&model, parts[i].text);
    text_add(plan, parts[i].plan);
  }
  text_add(&model, "}\n");
  return write_text(t, path, &model);
}

/* ---- running it */

typedef struct Borders {
  Tool *t;
  Build build;
  Model imported;
  Tensors inputs, got, want;
} Borders;

static bool build_borders(Borders *x, const Build *like, const char *folder) {
  Tool *t = x->t;
  const char *path = arena_printf(t->arena, "%s/borders.ir", folder),
             *plan_path = arena_printf(t->arena, "%s/borders.plan", folder);
  int ranks = like->plan->ranks < MOST_RANKS ? like->plan->ranks : MOST_RANKS;
  const Target *target = tool_target_of(t, ranks > 1 ? arena_printf(t->arena, "cpux%d", ranks) : "cpu");
  Text lines = {.arena = t->arena}, plan = {.arena = t->arena};
  DriverOptions o = {.model = {.arena = t->arena,
                               .diags = t->diags,
                               .path = path,
                               .computes = true,
                               .floats = like->options.model.floats},
                     .target = target,
                     .target_text = "beyond the first blocks",
                     .plan = {.memory_limit = 1e18},
                     .stub = like->options.stub,
                     .producer = like->options.producer};
  if (!target || !write_model(t, like, path, &lines) || !model_load(&o.model, &x->imported)) return false;
  driver_begin(&x->build, &o);
  if (!driver_run(&x->build, DRIVER_simplify)) return false;
  text_printf(&plan, "apc.plan 1\ngraph @main %016llx\ntarget cpux%d ranks %d\nmesh [r=%d] stages 1\n%s",
              (unsigned long long)plan_graph_hash(x->build.model.m, x->build.l1), ranks, ranks, ranks,
              text_str(&lines));
  if (ranks > 1) x->build.options.plan_file = plan_path;
  return write_text(t, plan_path, &plan);
}

static bool draw_inputs(Borders *x) {
  const Func *f = module_func(x->imported.m, "main");
  x->inputs.items = ARENA_ARRAY(x->t->arena, NamedTensor, f->ops.n);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    int64_t dims[MAX_RANK];
    if (op->kind != OP_input || !type_constant_dims(type_of(f, op->out), dims)) continue;
    NamedTensor *in = &x->inputs.items[x->inputs.n++];
    in->name = op_str(op, AT_name);
    const DType type = type_of(f, op->out)->dtype;
    const uint64_t stream = hash64(in->name, strlen(in->name), 0);
    if (!tensor_alloc(&in->tensor, type, type_of(f, op->out)->rank, dims))
      return diag_error(x->t->diags, DIAG_no_memory, (Loc){0}, "out of memory");
    const size_t n = (size_t)tensor_elements(&in->tensor);
    if (dtype_is_float(type)) fill_normal(type, in->tensor.data, 0, n, 0, stream, 0, 0.5);
    else fill_below(type, in->tensor.data, 0, n, 0, stream, 256);
  }
  return true;
}

static int run_borders(Borders *x, const char *folder) {
  Tool *t = x->t;
  const char *path = arena_printf(t->arena, "%s/borders", folder), *main = "main";
  Tensors *inputs[] = {&x->inputs}, *outputs[] = {&x->want};
  if (!draw_inputs(x) || !driver_write(&x->build, target_device_traits(DEVICE_cpu), path)) return tool_failed(t->diags);
  int code = EXIT_OK;
  ApcModel *program = tool_program_open(t, path, NULL, &code);
  if (code == EXIT_OK) code = tool_program_run(t, program, main, &x->inputs);
  if (code == EXIT_OK) outputs_read(t, program, &x->got, &code);
  apc_close(program);
  if (code != EXIT_OK) return code;
  return reference_run(t, &x->imported, 1, &main, inputs, outputs, NULL) ? EXIT_OK : tool_failed(t->diags);
}

static void compare_all(const Borders *x, BorderCheck *out) {
  ComputeType type = tool_compute(x->t);
  double most = default_rtol(type == CT_tf32 ? DT_f16 : compute_storage(type));
  out->ok = x->got.n == x->want.n;
  for (size_t i = 0; i < x->want.n; i++) {
    const Tensor *got = tensors_find(&x->got, x->want.items[i].name);
    if (!got) {
      out->ok = false, out->worst = x->want.items[i].name;
      continue;
    }
    Difference d = compare(x->t, got, &x->want.items[i].tensor);
    d.ok = d.rel_l2 <= most; /* whatever --rtol is for the model */
    out->ok = out->ok && d.ok;
    bool worse = !(d.rel_l2 <= out->difference.rel_l2) && !isnan(out->difference.rel_l2);
    if (!out->values++ || worse) out->worst = x->want.items[i].name, out->difference = d;
  }
}

int borders_check(Tool *t, const Build *like, const char *folder, BorderCheck *out) {
  Borders x = {.t = t};
  *out = (BorderCheck){0};
  tool_stage(t, "Running", "kernels beyond their first blocks");
  int code = build_borders(&x, like, folder) ? run_borders(&x, folder) : tool_failed(t->diags);
  if (code == EXIT_OK) compare_all(&x, out);
  tensors_free(&x.inputs);
  tensors_free(&x.got);
  tensors_free(&x.want);
  model_free(&x.imported);
  driver_free(&x.build);
  return code;
}
