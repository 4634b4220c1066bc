// Plan files that several tests read, print, edit and mutate.
#pragma once

namespace shardproof::ir {

// Everything the format can say, in hand-written spellings. Readable; not well-formed.
inline constexpr const char* rich_document = R"({
  "shardproof": 1, "$schema": "plan.schema.json", "name": "a \"rich\" plan\n",
  "meshes": [{"name": "dense", "axes": [["pp", 1], ["dp", 2], ["tp", 4]]},
             {"name": "expert", "devices": [0,1,2,3,4,5,6,7], "axes": [["edp", 4], ["ep", 2]]}],
  "buffers": [{"members": [{"offset": 64, "fused": [{"dims": [["tp", 1, 8], [4]], "of": "g"}, {"of": "u", "dims": [["tp", 1, 8], [4]]}]},
                           {"param": "w", "dims": [["tp"], []], "offset": 0}], "size": 128, "name": "b0"}],
  "rng": [{"name": "dropout", "key": ["tp", "m + 2", 7]}],
  "reference": {
    "inputs": [{"name": "ids", "type": "i32[4,6]", "below": 100}],
    "state": [{"name": "w", "type": "f32[16,16]", "role": "param", "next": "w"}, {"name": "g", "type": "f32[32,4]", "next": "g", "role": "param"},
              {"name": "u", "type": "f32[32,4]", "next": "u", "role": "param"}, {"name": "e", "type": "f32[10,9]", "next": "e"},
              {"name": "w.m", "type": "f32[16,16]", "role": "exp_avg", "param": "w", "next": "w.m"},
              {"name": "g.m", "type": "f32[32,4]", "role": "exp_avg", "param": "g", "next": "g.m"},
              {"name": "u.m", "type": "f32[32,4]", "role": "exp_avg", "param": "u", "next": "u.m"},
              {"name": "s", "type": "f32[]", "next": "s"}],
    "outputs": [{"name": "s_out", "value": "s"}], "body": []},
  "stages": [{"name": "only", "where": {"pp": [0]},
    "inputs": [{"name": "ids", "dims": [["dp"], []]}],
    "state": [
      {"name": "w", "dims": [["tp:(1)2", 8], ["tp:(2)2", "dp"]], "next": "w", "device": "host"},
      {"name": "w2", "of": "w", "mesh": "expert", "dims": [{"digits": ["ep", 2, 4], "permute": "zigzag"}, []], "next": "w2", "partial": {"edp": "sum"}},
      {"name": "gu", "type": "f32[16,4]", "fuse_axis": 0, "next": "gu", "owned": {"pp": [0]},
       "fused": [{"of": "g", "dims": [["tp", 1, 8], [4]]}, {"of": "u", "dims": [["tp", 1, 8], [4]]}]},
      {"name": "e", "dims": [{"digits": ["tp"], "pad": 12}, {"digits": ["dp"], "offsets": [0, 4, 9]}], "pad_value": "zero", "next": "e"},
      {"name": "m", "type": "f32[64]", "buffer": "b0", "role": "exp_avg", "dims": [["dp"]], "next": "m"},
      {"name": "s", "next": "s"}],
    "outputs": [{"name": "s_out", "value": "s"}],
    "body": [
      {"out": "c", "op": "constant", "value": 1e-5, "type": "f32[2]"},
      {"out": "t", "op": "table", "values": [1, 0.1, "1/8", "-2/6", 12345e-9], "type": "f64[5]"},
      {"out": "i", "op": "iota", "dim": 0, "type": "i64[3]"},
      {"out": "k", "op": "coord", "value": "4*dp + tp % 2 - tp / 2"},
      {"out": "p", "op": "slice", "in": "w2", "dim": 0, "start": "2*dp", "size": 1, "source": "model.py:1"},
      {"out": "q", "op": "all_reduce", "in": "p", "groups": [[0, 1, 2, 3], [4, 5, 6, 7]], "reduce": "avg", "recompute": "r1"},
      {"out": "a", "op": "all_gather", "in": ["q"], "axes": "tp", "dim": 0, "async": true},
      {"op": "loop", "index": "m", "trip": 3, "source": "loop", "carry": [{"init": "c", "arg": "c0", "next": "c1", "out": "c2"}], "body": [
        {"out": "r", "op": "rng_uniform", "stream": "dropout", "key": ["m", "tp"], "type": "f32[2]"},
        {"op": "loop", "index": "n", "trip": 2, "body": []},
        {"out": "c1", "op": "add", "in": ["c0", "r"]}]},
      {"op": "release", "in": ["c2", "a"]}]}],
  "schedule": {"microbatches": 2, "max_in_flight": 3, "actions": [["0F0", "", "0B0"], ["(0F1;1B0)OVERLAP_F_B"]]},
  "checkpoint": [{"key": "k", "state": "w", "file": "f"}],
  "notes": ["made by hand"]
})";

// A well-formed two-stage plan with fused weights and a flat buffer.
inline constexpr const char* pipeline_document = R"({
  "shardproof": 1,
  "meshes": [{"name": "dense", "axes": [["pp", 2], ["dp", 2], ["tp", 4]]},
             {"name": "expert", "axes": [["pp", 2], ["edp", 4], ["ep", 2]]}],
  "buffers": [{"name": "bucket", "size": 96, "members": [
    {"param": "w", "offset": 0, "dims": [["tp"], []]},
    {"fused": [{"of": "g", "dims": [["tp", 1, 2], [4]]}, {"of": "u", "dims": [["tp", 1, 2], [4]]}], "fuse_axis": 0, "offset": 72}]}],
  "rng": [{"name": "dropout", "key": ["tp"]}],
  "reference": {
    "inputs": [{"name": "ids", "type": "i32[4,6]", "below": 100}],
    "state": [
      {"name": "w", "type": "f32[16,16]", "role": "param", "next": "w"},
      {"name": "g", "type": "f32[8,4]", "role": "param", "next": "g"},
      {"name": "u", "type": "f32[8,4]", "role": "param", "next": "u"},
      {"name": "w.m", "type": "f32[16,16]", "role": "exp_avg", "param": "w", "next": "w.m"},
      {"name": "g.m", "type": "f32[8,4]", "role": "exp_avg", "param": "g", "next": "g.m"},
      {"name": "u.m", "type": "f32[8,4]", "role": "exp_avg", "param": "u", "next": "u.m"},
      {"name": "step", "type": "i64[]", "role": "step", "next": "step"}],
    "outputs": [{"name": "loss", "value": "total"}],
    "body": [{"out": "total", "op": "reduce_sum", "in": "w", "dims": [0, 1]}]},
  "stages": [
    {"name": "first", "where": {"pp": [0]},
     "inputs": [{"name": "ids", "dims": [["dp"], []]}],
     "state": [
       {"name": "w", "type": "bf16[4,16]", "dims": [["tp"], []], "next": "w"},
       {"name": "gu", "type": "f32[4,4]", "fused": [{"of": "g", "dims": [["tp", 1, 2], [4]]}, {"of": "u", "dims": [["tp", 1, 2], [4]]}],
        "fuse_axis": 0, "next": "gu"},
       {"name": "m", "type": "f32[48]", "buffer": "bucket", "role": "exp_avg", "dims": [["dp"]], "next": "m"},
       {"name": "step", "next": "step"}],
     "outputs": [],
     "body": [
       {"out": "piece", "op": "slice", "in": "w", "dim": 0, "start": 1, "size": 3, "stride": 1},
       {"out": "noise", "op": "rng_uniform", "stream": "dropout", "key": ["dp"], "type": "f32[2]"},
       {"out": "sum", "op": "all_reduce", "in": "noise", "axes": ["dp", "tp"], "reduce": "sum"},
       {"out": "pairs", "op": "all_reduce", "in": "noise", "groups": [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], [12, 13], [14, 15]],
        "reduce": "sum"},
       {"op": "loop", "index": "i", "trip": 2, "carry": [{"init": "sum", "arg": "a", "next": "b", "out": "c"}],
        "body": [{"out": "b", "op": "add", "in": ["a", "noise"], "action": "0F"}, {"out": "back", "op": "neg", "in": "noise", "action": "0B"}]}]},
    {"name": "second", "where": {"pp": [1]},
     "inputs": [],
     "state": [{"name": "w2", "of": "w", "mesh": "expert", "dims": [{"digits": ["ep", 2, 4], "permute": "zigzag"}, []], "next": "w2"}],
     "outputs": [{"name": "loss", "value": "l", "partial": {"tp": "sum"}}],
     "body": [
       {"out": "l", "op": "reduce_sum", "in": "w2", "dims": [0, 1]},
       {"op": "loop", "index": "j", "trip": 2, "body": [{"out": "forth", "op": "neg", "in": "l", "action": "1F"}, {"out": "back", "op": "neg", "in": "forth", "action": "1B"}]}]}],
  "schedule": {"generator": "1f1b", "microbatches": 2, "max_in_flight": 2},
  "checkpoint": [{"key": "a", "state": "w", "file": "f"}, {"key": "b", "state": "gu", "file": "f"}, {"key": "c", "state": "m", "file": "f"},
                 {"key": "d", "state": "step", "file": "f"}]
})";

}  // namespace shardproof::ir
