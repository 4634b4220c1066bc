// Hand-made plans at sizes that nobody would run, one for each construct, and each with a fault. At small sizes the right
// plan has to stay right, the faulty one wrong, and what the construct is made of has to be there still.
#include "verifier/execution/scale.h"

#include <gtest/gtest.h>

#include <memory>

#include "ir/read_json.h"
#include "ir/validate.h"
#include "verifier/execution/dense_domain.h"
#include "verifier/execution/parity.h"

namespace shardproof::execution {
namespace {

ir::Document document(std::string text, const std::vector<std::pair<std::string, std::string>>& edits = {}) {
  for (const auto& [from, to] : edits) {
    const std::size_t at = text.find(from);
    if (at == std::string::npos) throw std::runtime_error("no " + from);
    text.replace(at, from.size(), to);
  }
  ir::DiagnosticSink sink;
  const auto read = ir::read_document(std::make_shared<ir::SourceFile>("plan.json", text), sink);
  if (!read) throw std::runtime_error(sink.diagnostics().front().message);
  ir::validate(*read, sink);
  if (!sink.ok()) throw std::runtime_error(sink.diagnostics().front().message);
  return *read;
}

Scaled scaled(const ir::Document& full) {
  ScaleOptions options;
  options.small_enough = 0;
  Scaled result = scale(full, options);
  ir::DiagnosticSink sink;
  ir::validate(result.small, sink);
  EXPECT_TRUE(sink.ok()) << sink.diagnostics().front().message;
  EXPECT_TRUE(result.changed) << (result.not_kept.empty() ? "" : result.not_kept.front());
  return result;
}

bool is_right(const ir::Document& small) {
  const DenseDomain<RealNumbers<double>> domain;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    ParityOptions options;
    options.seed = seed;
    if (!run_parity(domain, small, options).equal()) return false;
  }
  return true;
}

using Edits = std::vector<std::pair<std::string, std::string>>;

// Scales the plan and the plan with a fault; returns the small right one.
ir::Document right_and_wrong(const std::string& text, const Edits& fault) {
  const Scaled right = scaled(document(text));
  EXPECT_LE(total_elements(right.small), 20000);
  EXPECT_TRUE(is_right(right.small));
  EXPECT_FALSE(is_right(scaled(document(text, fault)).small));
  return right.small;
}

const ir::DimLayout& layout(const ir::Document& small, std::size_t input = 0) {
  return small.plan.stages.front().inputs.at(input).binding.placement.dims.front();
}

TEST(Scale, SmallDocumentsAreReturned) {
  const ir::Document full = document(R"({"shardproof": 1, "mesh": [["dp", 2]],
    "reference": {"inputs": [{"name": "x", "type": "f32[8]"}], "outputs": [{"name": "y"}], "body": [{"out": "y", "op": "mul", "in": ["x", "x"]}]},
    "inputs": [{"name": "x", "dims": [["dp"]]}], "outputs": [{"name": "y", "dims": [["dp"]]}], "body": [{"out": "y", "op": "mul", "in": ["x", "x"]}]})");
  const Scaled result = scale(full);
  EXPECT_FALSE(result.changed);
  EXPECT_TRUE(result.not_kept.empty());
  EXPECT_EQ(result.small.reference.program.values[0].type.shape, ir::Shape{8});
}

TEST(Scale, Zigzag) {
  const ir::Document small = right_and_wrong(R"({"shardproof": 1, "mesh": [["cp", 8]],
    "reference": {"inputs": [{"name": "x", "type": "f32[65536,512]"}], "outputs": [{"name": "y"}], "body": [{"out": "y", "op": "mul", "in": ["x", "x"]}]},
    "inputs": [{"name": "x", "dims": [{"digits": ["cp", 2, 4096], "permute": "zigzag"}, []]}],
    "outputs": [{"name": "y", "dims": [{"digits": ["cp", 2, 4096], "permute": "zigzag"}, []]}],
    "body": [{"out": "y", "op": "mul", "in": ["x", "x"]}]})",
                                             {{R"(4096], "permute": "zigzag"}, []]}],
    "body")",
                                               R"(4096]}, []]}],
    "body")"}});
  EXPECT_EQ(layout(small).digits.at(1).size, 2);
  EXPECT_GE(layout(small).digits.at(0).size, 2);
  EXPECT_GE(layout(small).digits.at(2).size, 2);
}

TEST(Scale, UnevenShards) {
  const ir::Document small = right_and_wrong(R"({"shardproof": 1, "mesh": [["tp", 3]],
    "reference": {"inputs": [{"name": "x", "type": "f32[3000,512]"}], "outputs": [{"name": "y"}], "body": [{"out": "y", "op": "mul", "in": ["x", "x"]}]},
    "inputs": [{"name": "x", "dims": [{"digits": ["tp"], "offsets": [0, 900, 2100, 3000]}, []]}],
    "outputs": [{"name": "y", "dims": [{"digits": ["tp"], "offsets": [0, 900, 2100, 3000]}, []]}],
    "body": [{"out": "y", "op": "mul", "in": ["x", "x"]}]})",
                                             {{R"(900, 2100, 3000]}, []]}],
    "body")",
                                               R"(1200, 2100, 3000]}, []]}],
    "body")"}});
  const auto& offsets = layout(small).offsets;
  ASSERT_EQ(offsets.size(), 4U);
  EXPECT_EQ(offsets[1], offsets[3] - offsets[2]);
  EXPECT_LT(offsets[1], offsets[2] - offsets[1]);
}

TEST(Scale, PaddingEndsInTheLastShard) {
  const std::string text = R"({"shardproof": 1, "mesh": [["tp", 8]],
    "reference": {"inputs": [{"name": "x", "type": "f32[50257]"}], "outputs": [{"name": "n"}], "body": [{"out": "n", "op": "einsum", "in": ["x", "x"], "spec": "i,i->"}]},
    "inputs": [{"name": "x", "dims": [{"digits": ["tp"], "pad": 50304}]}], "outputs": [{"name": "n"}],
    "body": [{"out": "i", "op": "iota", "dim": 0, "type": "i64[6288]"}, {"out": "first", "op": "coord", "value": "6288*tp"},
             {"out": "f", "op": "broadcast", "in": "first", "shape": [6288], "dims": []}, {"out": "at", "op": "add", "in": ["i", "f"]},
             {"out": "end", "op": "constant", "value": 50257, "type": "i64[6288]"}, {"out": "real", "op": "compare", "in": ["at", "end"], "direction": "lt"},
             {"out": "zero", "op": "constant", "value": 0, "type": "f32[6288]"}, {"out": "kept", "op": "select", "in": ["real", "x", "zero"]},
             {"out": "own", "op": "einsum", "in": ["kept", "kept"], "spec": "i,i->"},
             {"out": "n", "op": "all_reduce", "in": "own", "axes": "tp", "reduce": "sum"}]})";
  const ir::Document small = right_and_wrong(text, {{"\"direction\": \"lt\"", "\"direction\": \"le\""}});
  const std::int64_t real = small.reference.program.values[0].type.shape[0];
  EXPECT_LT(real, layout(small).padded_extent);
  EXPECT_GT(real, layout(small).padded_extent - layout(small).digits.back().size);
}

TEST(Scale, SubAxes) {
  const ir::Document small = right_and_wrong(R"({"shardproof": 1, "mesh": [["tp", 16]],
    "reference": {"inputs": [{"name": "x", "type": "f32[8,4096]"}], "outputs": [{"name": "y"}], "body": [{"out": "y", "op": "mul", "in": ["x", "x"]}]},
    "inputs": [{"name": "x", "dims": [["tp:(1)8"], []]}], "outputs": [{"name": "y", "dims": [["tp:(1)8"], []]}],
    "body": [{"out": "y", "op": "mul", "in": ["x", "x"]}]})",
                                             {{R"(["tp:(1)8"], []]}],
    "body")",
                                               R"(["tp:(2)8"], []]}],
    "body")"}});
  EXPECT_EQ(small.plan.meshes[0].axes[0].size, 2 * layout(small).digits[0].size);
  EXPECT_GE(layout(small).digits[0].size, 2);
}

// Two parameters with a gap between them and one behind, cut over data parallel ranks in the middle of the second.
const char* const flat_buffer = R"({"shardproof": 1, "mesh": [["dp", 4]],
    "reference": {"state": [{"name": "a", "type": "f32[100]", "role": "param", "next": "a2"}, {"name": "b", "type": "f32[30,64]", "role": "param", "next": "b2"}],
      "body": [{"out": "a2", "op": "add", "in": ["a", "a"]}, {"out": "b2", "op": "mul", "in": ["b", "b"]}]},
    "buffers": [{"name": "flat", "size": 2560, "members": [{"param": "a", "offset": 0, "dims": [[]]}, {"param": "b", "offset": 128, "dims": [[], []]}]}],
    "state": [{"name": "shard", "type": "f32[640]", "buffer": "flat", "role": "param", "dims": [["dp", 640]], "next": "shard2"}],
    "body": [{"out": "all", "op": "all_gather", "in": "shard", "axes": "dp", "dim": 0},
             {"out": "a", "op": "slice", "in": "all", "dim": 0, "start": 0, "size": 100}, {"out": "b", "op": "slice", "in": "all", "dim": 0, "start": 128, "size": 1920},
             {"out": "a2", "op": "add", "in": ["a", "a"]}, {"out": "b2", "op": "mul", "in": ["b", "b"]},
             {"out": "gap", "op": "constant", "value": 0, "type": "f32[28]"}, {"out": "tail", "op": "constant", "value": 0, "type": "f32[512]"},
             {"out": "all2", "op": "concat", "in": ["a2", "gap", "b2", "tail"], "dim": 0},
             {"out": "shard2", "op": "slice", "in": "all2", "dim": 0, "start": "640*dp", "size": 640}]})";

TEST(Scale, BufferKeepsItsGaps) {
  const ir::Document small = right_and_wrong(flat_buffer, {{R"(["a2", "gap", "b2", "tail"])", R"(["a2", "b2", "gap", "tail"])"}});
  const ir::FlatBuffer& buffer = small.plan.buffers.front();
  const auto extent = [&](std::size_t state) { return small.reference.program.value(small.reference.state[state].value).type.shape; };
  EXPECT_GT(buffer.members[1].offset, extent(0)[0]);
  EXPECT_GT(buffer.size, buffer.members[1].offset + ir::element_count(extent(1)));
  EXPECT_EQ(buffer.size, small.plan.meshes[0].axes[0].size * small.plan.stages[0].program.value(small.plan.stages[0].state[0].value).type.shape[0]);
}

TEST(Scale, FaultyOffsets) {
  const Scaled wrong = scaled(document(flat_buffer, {{R"("start": 128, "size")", R"("start": 127, "size")"}}));
  EXPECT_FALSE(is_right(wrong.small));
}

TEST(Scale, FusedParts) {
  right_and_wrong(R"({"shardproof": 1, "mesh": [["tp", 4]],
    "reference": {"inputs": [{"name": "x", "type": "f32[2,512]"}],
      "state": [{"name": "gate", "type": "f32[1024,512]", "role": "param", "next": "gate"}, {"name": "up", "type": "f32[1024,512]", "role": "param", "next": "up"}],
      "outputs": [{"name": "n"}],
      "body": [{"out": "g", "op": "einsum", "in": ["x", "gate"], "spec": "bh,fh->bf"}, {"out": "u", "op": "einsum", "in": ["x", "up"], "spec": "bh,fh->bf"},
               {"out": "s", "op": "sigmoid", "in": "g"}, {"out": "n", "op": "einsum", "in": ["s", "u"], "spec": "bf,bf->b"}]},
    "inputs": [{"name": "x"}],
    "state": [{"name": "w", "type": "f32[512,512]", "fused": [{"of": "gate", "dims": [["tp", 1, 256], [512]]}, {"of": "up", "dims": [["tp", 1, 256], [512]]}], "fuse_axis": 0, "next": "w"}],
    "outputs": [{"name": "n"}],
    "body": [{"out": "both", "op": "einsum", "in": ["x", "w"], "spec": "bh,fh->bf"}, {"out": "g", "op": "slice", "in": "both", "dim": 1, "start": 0, "size": 256},
             {"out": "u", "op": "slice", "in": "both", "dim": 1, "start": 256, "size": 256}, {"out": "s", "op": "sigmoid", "in": "g"},
             {"out": "own", "op": "einsum", "in": ["s", "u"], "spec": "bf,bf->b"}, {"out": "n", "op": "all_reduce", "in": "own", "axes": "tp", "reduce": "sum"}]})",
                  {{R"("start": 0, "size": 256)", R"("start": 128, "size": 256)"}});
}

// Mean over microbatches; the fault leaves the last one out.
const char* const microbatches = R"({"shardproof": 1, "mesh": [["dp", 4]],
    "reference": {"inputs": [{"name": "x", "type": "f32[256,512]"}], "outputs": [{"name": "n"}],
      "body": [{"out": "s", "op": "reduce_sum", "in": "x", "dims": [0]}, {"out": "c", "op": "constant", "value": "1/256", "type": "f32[512]"}, {"out": "n", "op": "mul", "in": ["s", "c"]}]},
    "inputs": [{"name": "x", "dims": [[8, "dp", 8], []]}], "outputs": [{"name": "n"}],
    "body": [{"out": "zero", "op": "constant", "value": 0, "type": "f32[512]"},
             {"op": "loop", "index": "m", "trip": 8, "carry": [{"init": "zero", "arg": "sum", "next": "sum_next", "out": "total"}],
              "body": [{"out": "b", "op": "slice", "in": "x", "dim": 0, "start": "8*m", "size": 8}, {"out": "p", "op": "reduce_sum", "in": "b", "dims": [0]},
                       {"out": "sum_next", "op": "add", "in": ["sum", "p"]}]},
             {"out": "c", "op": "constant", "value": "1/256", "type": "f32[512]"}, {"out": "own", "op": "mul", "in": ["total", "c"]},
             {"out": "n", "op": "all_reduce", "in": "own", "axes": "dp", "reduce": "sum"}]})";

TEST(Scale, Loops) {
  right_and_wrong(microbatches, {{"\"trip\": 8", "\"trip\": 7"}});
  EXPECT_FALSE(is_right(scaled(document(microbatches, {{"\"8*m\"", "\"8*(m/2)\""}})).small));
}

TEST(Scale, FactorsOfSizes) {
  const ir::Document small = scaled(document(microbatches)).small;
  const std::int64_t batch = small.reference.program.values[0].type.shape[0];
  EXPECT_EQ(small.reference.program.body[1].attributes.get<ir::Rational>("value"), ir::Rational(1, batch));
  EXPECT_FALSE(is_right(scaled(document(microbatches, {{R"(["s", "c"])", R"(["s", "s"])"}})).small));
}

TEST(Scale, RingOfPermutes) {
  const std::string text = R"({"shardproof": 1, "mesh": [["cp", 8]],
    "reference": {"inputs": [{"name": "x", "type": "f32[8192,512]"}], "outputs": [{"name": "y"}],
      "body": [{"out": "a", "op": "slice", "in": "x", "dim": 0, "start": 7168, "size": 1024}, {"out": "b", "op": "slice", "in": "x", "dim": 0, "start": 0, "size": 7168},
               {"out": "y", "op": "concat", "in": ["a", "b"], "dim": 0}]},
    "inputs": [{"name": "x", "dims": [["cp"], []]}], "outputs": [{"name": "y", "dims": [["cp"], []]}],
    "body": [{"out": "y", "op": "permute", "in": "x", "axes": "cp", "shift": 1}]})";
  right_and_wrong(text, {{"\"shift\": 1", "\"shift\": 0"}});
  EXPECT_FALSE(is_right(scaled(document(text, {{"\"shift\": 1", "\"shift\": 3"}})).small));
}

TEST(Scale, ExplicitGroups) {
  const ir::Document small = right_and_wrong(R"({"shardproof": 1, "mesh": [["dp", 2], ["tp", 4]],
    "reference": {"inputs": [{"name": "x", "type": "f32[64,4096]"}], "outputs": [{"name": "n"}], "body": [{"out": "n", "op": "reduce_sum", "in": "x", "dims": [1]}]},
    "inputs": [{"name": "x", "dims": [["dp"], ["tp"]]}], "outputs": [{"name": "n", "dims": [["dp"]]}],
    "body": [{"out": "own", "op": "reduce_sum", "in": "x", "dims": [1]},
             {"out": "n", "op": "all_reduce", "in": "own", "groups": [[0, 1, 2, 3], [4, 5, 6, 7]], "reduce": "sum"}]})",
                                             {{"[[0, 1, 2, 3], [4, 5, 6, 7]]", "[[0, 4], [1, 5], [2, 6], [3, 7]]"}});
  EXPECT_EQ(small.plan.stages[0].program.body[1].attributes.get<std::vector<std::vector<std::int64_t>>>("groups").front().size(),
            static_cast<std::size_t>(small.plan.meshes[0].axes[1].size));
}

// Query head h reads key/value head h / group. The fault h % kv is none where one of kv heads and group is 1.
TEST(Scale, HeadMap) {
  const std::string text = R"({"shardproof": 1, "mesh": [["tp", 8]],
    "reference": {"inputs": [{"name": "q", "type": "f32[512,4096]"}, {"name": "k", "type": "f32[512,2048]"}], "outputs": [{"name": "s"}],
      "body": [{"out": "qh", "op": "reshape", "in": "q", "shape": [512, 16, 2, 128]}, {"out": "kh", "op": "reshape", "in": "k", "shape": [512, 16, 128]},
               {"out": "s", "op": "einsum", "in": ["qh", "kh"], "spec": "sgrd,sgd->s"}]},
    "inputs": [{"name": "q", "dims": [[], ["tp"]]}, {"name": "k", "dims": [[], ["tp"]]}], "outputs": [{"name": "s"}],
    "body": [{"out": "qh", "op": "reshape", "in": "q", "shape": [512, 2, 2, 128]}, {"out": "kh", "op": "reshape", "in": "k", "shape": [512, 2, 128]},
             {"out": "own", "op": "einsum", "in": ["qh", "kh"], "spec": "sgrd,sgd->s"},
             {"out": "s", "op": "all_reduce", "in": "own", "axes": "tp", "reduce": "sum"}]})";
  const ir::Document small = right_and_wrong(text, {{R"("in": ["qh", "kh"], "spec": "sgrd,sgd->s"},
             {"out": "s")",
                                                       R"("in": ["qh", "kh"], "spec": "srgd,sgd->s"},
             {"out": "s")"}});
  const auto heads = small.reference.program.body[0].attributes.get<std::vector<std::int64_t>>("shape");
  const std::int64_t tp = small.plan.meshes[0].axes[0].size;
  EXPECT_GE(heads[2], 2);
  EXPECT_GE(heads[1] / tp, 2);
}

// The same by a table: 32 query heads on 8 key/value heads.
TEST(Scale, HeadTable) {
  const auto table = [](auto map) {
    std::string values;
    for (int h = 0; h < 32; ++h) values += (h == 0 ? "" : ", ") + std::to_string(map(h));
    return R"({"out": "of", "op": "table", "values": [)" + values + R"(], "type": "i64[32]"})";
  };
  const std::string right = table([](int h) { return h / 4; });
  const std::string text = R"({"shardproof": 1, "mesh": [["tp", 2]],
    "reference": {"inputs": [{"name": "q", "type": "f32[32,128]"}, {"name": "k", "type": "f32[8,128]"}], "outputs": [{"name": "s"}],
      "body": [{"out": "qh", "op": "reshape", "in": "q", "shape": [8, 4, 128]}, {"out": "s", "op": "einsum", "in": ["qh", "k"], "spec": "grd,gd->"}]},
    "inputs": [{"name": "q"}, {"name": "k"}], "outputs": [{"name": "s"}],
    "body": [)" + right + R"(, {"out": "kq", "op": "take", "in": ["k", "of"], "dim": 0}, {"out": "s", "op": "einsum", "in": ["q", "kq"], "spec": "hd,hd->"}]})";
  right_and_wrong(text, {{right, table([](int h) { return h % 8; })}});
}

TEST(Scale, SlidingWindow) {
  const std::string text = R"({"shardproof": 1, "mesh": [["tp", 2]],
    "reference": {"inputs": [{"name": "x", "type": "f32[8192,8192]"}], "outputs": [{"name": "n"}],
      "body": [{"out": "q", "op": "iota", "dim": 0, "type": "i64[8192,8192]"}, {"out": "k", "op": "iota", "dim": 1, "type": "i64[8192,8192]"},
               {"out": "d", "op": "sub", "in": ["q", "k"]}, {"out": "w", "op": "constant", "value": 1000, "type": "i64[8192,8192]"},
               {"out": "near", "op": "compare", "in": ["d", "w"], "direction": "lt"}, {"out": "z", "op": "constant", "value": 0, "type": "f32[8192,8192]"},
               {"out": "kept", "op": "select", "in": ["near", "x", "z"]}, {"out": "n", "op": "reduce_sum", "in": "kept", "dims": [0, 1]}]},
    "inputs": [{"name": "x"}], "outputs": [{"name": "n"}],
    "body": [{"out": "q", "op": "iota", "dim": 0, "type": "i64[8192,8192]"}, {"out": "k", "op": "iota", "dim": 1, "type": "i64[8192,8192]"},
               {"out": "d", "op": "sub", "in": ["q", "k"]}, {"out": "v", "op": "constant", "value": 1000, "type": "i64[8192,8192]"},
               {"out": "near", "op": "compare", "in": ["d", "v"], "direction": "lt"}, {"out": "z", "op": "constant", "value": 0, "type": "f32[8192,8192]"},
               {"out": "kept", "op": "select", "in": ["near", "x", "z"]}, {"out": "n", "op": "reduce_sum", "in": "kept", "dims": [0, 1]}]})";
  right_and_wrong(text, {{R"(["d", "v"], "direction": "lt")", R"(["d", "v"], "direction": "le")"}});
  EXPECT_FALSE(is_right(scaled(document(text, {{R"("v", "op": "constant", "value": 1000)", R"("v", "op": "constant", "value": 1001)"}})).small));
  EXPECT_FALSE(is_right(scaled(document(text, {{R"("v", "op": "constant", "value": 1000)", R"("v", "op": "constant", "value": 9000)"}})).small));
}

TEST(Scale, StridedSlices) {
  right_and_wrong(R"({"shardproof": 1, "mesh": [["tp", 2]],
    "reference": {"inputs": [{"name": "x", "type": "f32[4096,512]"}], "outputs": [{"name": "y"}],
      "body": [{"out": "r", "op": "reshape", "in": "x", "shape": [512, 8, 512]}, {"out": "s", "op": "slice", "in": "r", "dim": 1, "start": 7, "size": 1},
               {"out": "y", "op": "reshape", "in": "s", "shape": [512, 512]}]},
    "inputs": [{"name": "x"}], "outputs": [{"name": "y"}],
    "body": [{"out": "y", "op": "slice", "in": "x", "dim": 0, "start": 7, "size": 512, "stride": 8}]})",
                  {{R"("start": 7, "size": 512)", R"("start": 0, "size": 512)"}});
}

// A gather that is not there, replaced by copies of the own shard: how many copies is a size as well.
TEST(Scale, CopiesEndToEnd) {
  const std::string text = R"({"shardproof": 1, "mesh": [["tp", 8]],
    "reference": {"inputs": [{"name": "x", "type": "f32[4096]"}], "outputs": [{"name": "y"}], "body": [{"out": "y", "op": "mul", "in": ["x", "x"]}]},
    "inputs": [{"name": "x", "dims": [["tp"]]}], "outputs": [{"name": "y"}],
    "body": [{"out": "all", "op": "all_gather", "in": "x", "axes": "tp", "dim": 0}, {"out": "y", "op": "mul", "in": ["all", "all"]}]})";
  const Edits fault = {{R"("op": "all_gather", "in": "x", "axes": "tp")", R"("op": "concat", "in": ["x", "x", "x", "x", "x", "x", "x", "x"])"}};
  right_and_wrong(text, fault);
  EXPECT_EQ(scaled(document(text, fault)).small.plan.meshes[0].axes[0].size, 2);
}

TEST(Scale, WhatCannotBeKeptIsSaid) {
  const Scaled result = scaled(document(R"({"shardproof": 1, "mesh": [["tp", 4]],
    "reference": {"inputs": [{"name": "x", "type": "f32[3000,512]"}], "outputs": [{"name": "y"}], "body": [{"out": "y", "op": "mul", "in": ["x", "x"]}]},
    "inputs": [{"name": "x", "dims": [{"digits": ["tp"], "offsets": [0, 900, 2100, 2500, 3000]}, []]}],
    "outputs": [{"name": "y", "dims": [{"digits": ["tp"], "offsets": [0, 900, 2100, 2500, 3000]}, []]}],
    "body": [{"out": "y", "op": "mul", "in": ["x", "x"]}]})"));
  ASSERT_FALSE(result.not_kept.empty());
  EXPECT_NE(result.not_kept.front().find("uneven"), std::string::npos);
  EXPECT_EQ(result.small.plan.meshes[0].axes[0].size, 4);
  EXPECT_TRUE(is_right(result.small));
}

}  // namespace
}  // namespace shardproof::execution
