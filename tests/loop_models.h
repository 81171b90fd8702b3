/* tests/loop_models.h - level-1 functions with loops as IR text, for tests of lowering and planning. */
#ifndef APC_TESTS_LOOP_MODELS_H
#define APC_TESTS_LOOP_MODELS_H

#include "base/text.h"

typedef struct LoopModel {
  const char *name, *text;
} LoopModel;

/* Sequence 5, batch 4, hidden 6: two ranks divide them evenly, three and four do not.  Weights are inputs, so that they
 * are random. */
static const LoopModel loop_models[] = {
    {"LSTM with stacked results",
     "func @main level 1 { %x = input {name=\"x\"} : f64[5, 4, 3] %w = input {name=\"w\"} : f64[3, 4, 6] %r = input "
     "{name=\"r\"} : f64[6, 4, 6] "
     "%h0 = input {name=\"h0\"} : f64[4, 6] %c0 = const {value=0} : f64[4, 6] %y0 = const {value=0} : f64[5, 4, 6] "
     "%n = size {expr=5} : i64[] %p = dot %x, %w {spec=\"sbi,igd->sbgd\"} : f64[5, 4, 4, 6] "
     "%t = loop %n {trips=5} : i64[] %h = carry %h0 : f64[4, 6] %c = carry %c0 : f64[4, 6] %y = carry %y0 : f64[5, 4, "
     "6] "
     "%pt = gather %p, %t {axis=0, start=0} : f64[4, 4, 6] %q = dot %h, %r {spec=\"bk,kgd->bgd\"} : f64[4, 4, 6] %g = "
     "add %pt, %q : f64[4, 4, 6] "
     "%gi = slice %g {starts=[0, 0, 0], strides=[1, 1, 1]} : f64[4, 1, 6] %gf = slice %g {starts=[0, 1, 0], "
     "strides=[1, 1, 1]} : f64[4, 1, 6] "
     "%go = slice %g {starts=[0, 2, 0], strides=[1, 1, 1]} : f64[4, 1, 6] %gc = slice %g {starts=[0, 3, 0], "
     "strides=[1, 1, 1]} : f64[4, 1, 6] "
     "%i = sigmoid %gi : f64[4, 1, 6] %f = sigmoid %gf : f64[4, 1, 6] %o = sigmoid %go : f64[4, 1, 6] %k = tanh %gc : "
     "f64[4, 1, 6] "
     "%i2 = reshape %i : f64[4, 6] %f2 = reshape %f : f64[4, 6] %o2 = reshape %o : f64[4, 6] %k2 = reshape %k : f64[4, "
     "6] "
     "%fc = mul %f2, %c : f64[4, 6] %ik = mul %i2, %k2 : f64[4, 6] %c1 = add %fc, %ik : f64[4, 6] %tc = tanh %c1 : "
     "f64[4, 6] %h1 = mul %o2, %tc : f64[4, 6] "
     "%row = reshape %h1 : f64[1, 4, 6] %y1 = update %y, %row, %t {axis=0, start=0} : f64[5, 4, 6] "
     "repeat \"t.repeat\" %t %hT = leave %h, %h1 : f64[4, 6] %cT = leave %c, %c1 : f64[4, 6] %yT = leave %y, %y1 : "
     "f64[5, 4, 6] "
     "output \"hT\" %hT output \"cT\" %cT output \"yT\" %yT }"},
    {"swapped carries until the data says stop",
     "func @main level 1 { %a0 = input {name=\"a\"} : f64[4, 6] %b0 = input {name=\"b\"} : f64[4, 6] %w = input "
     "{name=\"w\"} : f64[6, 6] "
     "%n = const {value=7} : i64[] %lim = const {value=3} : f64[] %s0 = const {value=0} : f64[] "
     "%t = loop %n : i64[] %a = carry %a0 : f64[4, 6] %b = carry %b0 : f64[4, 6] %s = carry %s0 : f64[] "
     "%aw = dot %a, %w {spec=\"bk,kd->bd\"} : f64[4, 6] %z = tanh %aw : f64[4, 6] %q = mul %z, %z : f64[4, 6] %m = "
     "reduce %q {op=sum, axes=[0, 1]} : f64[] "
     "%s1 = add %s, %m : f64[] %again = lt %s1, %lim : bool[] "
     "repeat \"t.repeat\" %t, %again %x = leave %a, %b : f64[4, 6] %y = leave %b, %z : f64[4, 6] %sT = leave %s, %s1 : "
     "f64[] "
     "%xy = add %x, %y : f64[4, 6] %r = tanh %xy : f64[4, 6] output \"r\" %r output \"s\" %sT }"},
    {"a loop in a loop",
     "func @main level 1 { %x = input {name=\"x\"} : f64[4, 6] %w = input {name=\"w\"} : f64[6, 6] %v = input "
     "{name=\"v\"} : f64[3, 6, 6] "
     "%n = size {expr=3} : i64[] %m = size {expr=2} : i64[] %e = tanh %w : f64[6, 6] "
     "%t = loop %n {trips=3} : i64[] %h = carry %x : f64[4, 6] "
     "%vt = gather %v, %t {axis=0, start=0} : f64[6, 6] %g0 = tanh %h : f64[4, 6] %half = const {value=0.5} : f64[4, "
     "6] "
     "%u = loop %m {trips=2} : i64[] %g = carry %g0 : f64[4, 6] %p = dot %g, %vt {spec=\"bk,kd->bd\"} : f64[4, 6] %r = "
     "dot %p, %e {spec=\"bk,kd->bd\"} : f64[4, 6] "
     "%d = mul %r, %half : f64[4, 6] %ix = add %d, %x : f64[4, 6] %k = tanh %ix : f64[4, 6] repeat \"u.repeat\" %u %gT "
     "= leave %g, %k : f64[4, 6] "
     "%s = add %gT, %h : f64[4, 6] %s1 = mul %s, %half : f64[4, 6] repeat \"t.repeat\" %t %hT = leave %h, %s1 : f64[4, "
     "6] "
     "%o = dot %hT, %e {spec=\"bk,kd->bd\"} : f64[4, 6] output \"o\" %o }"},
    {"two branches",
     "func @main level 1 { %x = input {name=\"x\"} : f64[4, 6] %w = input {name=\"w\"} : f64[6, 6] %z = const "
     "{value=0} : f64[] %s = reduce %x {op=sum, axes=[0, 1]} : f64[] "
     "%c = lt %s, %z : bool[] %nc = not %c : bool[] %n = cast %c {to=i64} : i64[] %m = cast %nc {to=i64} : i64[] %r0 = "
     "const {value=0} : f64[4, 6] "
     "%t = loop %n {trips=1} : i64[] %a = carry %r0 : f64[4, 6] %ra = dot %x, %w {spec=\"bk,kd->bd\"} : f64[4, 6] "
     "repeat \"a.end\" %t %r1 = leave %a, %ra : f64[4, 6] "
     "%u = loop %m {trips=1} : i64[] %b = carry %r1 : f64[4, 6] %rb = dot %x, %w {spec=\"bk,dk->bd\"} : f64[4, 6] "
     "repeat \"b.end\" %u %r2 = leave %b, %rb : f64[4, 6] output \"r\" %r2 }"},
    {"no round, and what comes from outside",
     "func @main level 1 { %x = input {name=\"x\"} : f64[4, 6] %y = input {name=\"y\"} : f64[4, 6] %zero = const "
     "{value=0} : i64[] %two = const {value=2} : i64[] "
     "%o = const {value=1} : f64[4, 6] %t = loop %zero : i64[] %a = carry %x : f64[4, 6] %a1 = neg %a : f64[4, 6] "
     "repeat \"t.repeat\" %t %aT = leave %a, %a1 : f64[4, 6] "
     "%u = loop %two : i64[] %b = carry %aT : f64[4, 6] %d = carry %o : f64[4, 6] %e = carry %y : f64[4, 6] %l = const "
     "{value=2} : f64[4, 6] %b1 = mul %b, %l : f64[4, 6] "
     "repeat \"u.repeat\" %u %bT = leave %b, %b1 : f64[4, 6] %dT = leave %d, %y : f64[4, 6] %eT = leave %e, %l : "
     "f64[4, 6] "
     "%s = add %bT, %dT : f64[4, 6] %r = add %s, %eT : f64[4, 6] output \"r\" %r }"},
};

enum { LOOP_MODELS = (int)(sizeof loop_models / sizeof *loop_models) };

#endif
