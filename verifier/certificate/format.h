// What the lines of a certificate are. Text; one node or one result of folding a line, in the order in which a proof asks for them.
//
//   shardproof-certificate 1            the version of the format
//   made-by 0.1.0 kernel 1              who wrote it, and whose normal forms it counts on
//   plan sha256 HEX                     digests_of the document
//   reference sha256 HEX
//   ...
//   end LINES sha256 HEX                number and digest of all lines before
//
// Nodes are numbered from 0, those of each kind by themselves, and refer to earlier ones:
//
//   variables   ve DIM EXTENT | vm AXIS | vl LOOP | vb EXTENT (a binder)
//   atoms       a VARIABLE | q INDEX DIVISOR | m INDEX DIVISOR | l TENSOR INDEX..    of index terms
//   indices     i CONSTANT {COEFFICIENT ATOM}
//   terms       p {COEFFICIENT N {TERM POWER}} | x TENSOR INDEX.. | f FUNCTION TERM.. | s TERM BINDER.. | u TERM BINDER.. (maximum) |
//               g INDEX LO HI (- is no bound) | n INDEX
//
// Results. A value without a line is left as the semantics gives it.
//
//   def NAME TERM MULTIPLIER VARIABLE..   a value of the reference is MULTIPLIER * t[VARIABLE..] for a new tensor t, which is TERM
//   ref NAME TERM                         a value of the reference is TERM
//   val NAME TERM                         a value of the plan is TERM
//   lost NAME                             a value of the plan that no claim rests on
//   sum NAME TERM | cmp NAME TERM         the value of a claim, summed or as compared
//
// Tensors are numbered in the order in which the proof makes them: inputs and states, then definitions as they come.
#pragma once

#include <string_view>

namespace shardproof::verifier {

inline constexpr int kCertificateVersion = 1;
// Goes up with every change to a normal form or a rule, after which an older certificate need not fit any more.
inline constexpr int kKernelVersion = 1;

inline constexpr std::string_view kCertificateTitle = "shardproof-certificate";

}  // namespace shardproof::verifier
