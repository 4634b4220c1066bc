// Each case edits one place of a well-formed document, in the file's text or in memory, and names the findings.
#include "ir/validate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ir/builder.h"
#include "ir/read_json.h"
#include "tests/unit/ir/sample_documents.h"

namespace shardproof::ir {
namespace {

std::string codes_of(const Document& document) {
  DiagnosticSink sink;
  validate(document, sink);
  std::string codes;
  for (const Diagnostic& diagnostic : sink.diagnostics()) codes += (codes.empty() ? "" : " ") + diagnostic.code;
  return codes;
}

std::string codes_of(const std::string& text) {
  DiagnosticSink sink;
  const auto document = read_document(std::make_shared<SourceFile>("test.json", text), sink);
  if (!document) return "unreadable: " + sink.diagnostics().front().code + " " + sink.diagnostics().front().message;
  return codes_of(*document);
}

std::string edited(const std::string& from, const std::string& to) {
  std::string text = pipeline_document;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

Document base_document() {
  DiagnosticSink sink;
  auto document = read_document(std::make_shared<SourceFile>("test.json", pipeline_document), sink);
  if (!document) {
    ADD_FAILURE() << sink.diagnostics().front().message << " " << sink.diagnostics().front().found;
    return {};
  }
  return *document;
}

TEST(Validate, BaseDocumentIsWellFormed) {
  EXPECT_EQ(codes_of(std::string(pipeline_document)), "");
}

TEST(Validate, EditsOfTheFileHaveTheirCodes) {
  struct Case {
    std::string from, to, codes;
  };
  const std::vector<Case> cases = {
      // meshes
      {R"(["edp", 4], ["ep", 2]])", R"(["edp", 4], ["ep", 4]])", "SP0105"},  // another world
      {R"(["pp", 2], ["edp", 4], ["ep", 2]])", R"(["edp", 4], ["ep", 2], ["pp", 2]])",
       "SP0105"},  // another meaning of pp
      {R"(["dp", 2], ["tp", 4]])", R"(["dp", 2], ["tp", 4], ["dp", 1]])", "SP0105"},
      {R"(["dp", 2], ["tp", 4]])", R"(["dp", 0], ["tp", 4]])", "unreadable: SP0105 mesh axis `dp` has no ranks"},  // and nothing that follows from it
      {R"(["dp", 2], ["tp", 4]])", R"(["dp", 2], ["tp", -4]])", "unreadable: SP0105 mesh axis `tp` has no ranks"},
      {R"(["tp", 4]]})", R"(["tp", 4]], "devices": [0, 1]})", "SP0106"},
      {R"(["tp", 4]]})", R"(["tp", 4]], "devices": [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,14]})", "SP0106"},
      {R"(["tp", 4]]})", R"(["tp", 4]], "devices": [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,16]})", "SP0106"},
      {R"(["tp", 4]]})", R"(["tp", 4]], "devices": [1,0,2,3,4,5,6,7,8,9,10,11,12,13,14,15]})", ""},
      {R"(["tp", 4]]})", R"(["tp", 4]], "devices": [8,1,2,3,4,5,6,7,0,9,10,11,12,13,14,15]})", "SP0105"},  // pp differs
      // stages
      {R"("where": {"pp": [1]})", R"("where": {"pp": [0]})", "SP0114"},
      {R"("where": {"pp": [1]})", R"("where": {"pp": [1], "dp": [0]})", "SP0114"},
      {R"("where": {"pp": [1]})", R"("where": {"pp": [2]})", "SP0107"},
      {R"("where": {"pp": [1]})", R"("where": {"pp": [0, 1]})", "SP0114"},
      // placements
      {R"("dims": [["dp"], []])", R"("dims": [["dp", "dp"], []])", "SP0103"},
      {R"("dims": [["dp"], []])", R"("dims": [["dp"], []], "partial": {"dp": "sum"})", "SP0103"},
      {R"("dims": [["dp"], []])", R"("dims": [["dp"], []], "partial": {"tp": "max"})", ""},
      {R"("dims": [["dp"], []])", R"("dims": [["dp"], []], "owned": {"tp": [0, 3]})", ""},
      {R"("dims": [["dp"], []])", R"("dims": [["dp"], []], "owned": {"tp": [3, 0]})", "SP0107"},
      {R"("dims": [["dp"], []])", R"("dims": [["dp"], []], "owned": {"tp": [4]})", "SP0107"},
      {R"("dims": [["dp"], []])", R"("dims": [["dp"], []], "owned": {"tp": []})", "SP0107"},
      {R"("dims": [["dp"], []])", R"("dims": [["dp"], []], "owned": {"pp": [1]})", "SP0107"},  // the stage is not there
      {R"("dims": [["dp"], []])", R"("dims": [["tp:(2)2"], ["tp:(1)2"]])", ""},
      {R"("dims": [["dp"], []])", R"("dims": [["tp:(1)4"], ["tp:(2)2"]])", "SP0103"},
      {R"("dims": [["dp"], []])", R"("dims": [["tp:(4)2"], []])", "SP0104"},
      {R"("dims": [["dp"], []])", R"("dims": [["dp", 3], []])", "SP0102"},
      {R"("dims": [["dp"], []])", R"("dims": [{"digits": ["dp"], "pad": 2}, []])", "SP0102"},
      {R"("dims": [["dp"], []])", R"("dims": [{"digits": ["dp"], "pad": 6}, []])", ""},
      {R"("dims": [["dp"], []])", R"("dims": [{"digits": ["dp"], "offsets": [0, 1, 4]}, []])", ""},
      {R"("dims": [["dp"], []])", R"("dims": [{"digits": ["dp"], "offsets": [0, 1, 3]}, []])", "SP0107"},
      {R"("dims": [["dp"], []])", R"("dims": [{"digits": ["dp"], "offsets": [0, 4]}, []])", "SP0107"},
      {R"("dims": [["dp"], []])", R"("dims": [{"digits": ["dp", 2], "offsets": [0, 1, 4]}, []])", "SP0107"},
      {R"("digits": ["ep", 2, 4], "permute")", R"("digits": ["ep", 8], "permute")", "SP0107"},
      // local types
      {R"("type": "bf16[4,16]")", R"("type": "bf16[4,8]")", "SP0108"},
      {R"("type": "bf16[4,16]")", R"("type": "i32[4,16]")", "SP0109"},
      {R"("type": "f32[4,4]")", R"("type": "f32[16]")", ""},
      {R"("type": "f32[4,4]")", R"("type": "f32[4,5]")", "SP0108"},
      {R"("type": "f32[48]")", R"("type": "f32[24]")", "SP0108"},
      {R"("type": "f32[48]")", R"("type": "i32[48]")", "SP0109 SP0109 SP0109"},
      // fused parts
      {R"({"of": "u", "dims": [["tp", 1, 2], [4]]}],
        "fuse_axis": 0)",
       R"({"of": "u", "dims": [["tp", 2], [4]]}], "fuse_axis": 0)", "SP0112"},
      {R"("fuse_axis": 0, "next": "gu")", R"("fuse_axis": 3, "next": "gu")", "SP0112"},
      {R"("fuse_axis": 0, "next": "gu")", R"("fuse_axis": 0, "partial": {"dp": "sum"}, "next": "gu")", ""},
      {R"("fuse_axis": 0, "next": "gu")", R"("fuse_axis": 0, "partial": {"tp": "sum"}, "next": "gu")", "SP0103"},
      {R"("fuse_axis": 0, "next": "gu")", R"("fuse_axis": 0, "role": "exp_avg_sq", "next": "gu")",
       "SP0111 SP0111 SP0501 SP0501"},
      // buffers
      {R"("offset": 72)", R"("offset": 63)", "SP0113"},
      {R"("offset": 72)", R"("offset": 64)", ""},
      {R"("offset": 72)", R"("offset": 81)", "SP0113"},
      {R"("offset": 72)", R"("offset": -1)", "SP0113"},
      {R"("dims": [["dp"]], "next": "m")", R"("dims": [["tp"]], "next": "m")", "SP0108 SP0103"},
      {R"("role": "exp_avg", "dims")", R"("role": "exp_avg_sq", "dims")",
       "SP0111 SP0111 SP0111 SP0501 SP0501 SP0501"},
      // programs
      {R"("start": 1, "size": 3)", R"("start": 2, "size": 3)", "unreadable: SP0008"},
      {R"("start": 1, "size": 3)", R"("start": -1, "size": 3)", "unreadable: SP0008"},
      {R"("start": 1, "size": 3, "stride": 1)", R"("start": 1, "size": 2, "stride": 3)", "unreadable: SP0008"},
      {R"("start": 1, "size": 3)", R"("start": "tp", "size": 3)", ""},
      {R"("stream": "dropout")", R"("stream": "dropin")", "SP0124"},
      {R"("axes": ["dp", "tp"])", R"("axes": ["dp", "ep"])", "SP0115"},
      {R"([14, 15]])", R"([14, 16]])", "SP0115"},
      {R"(, [14, 15]])", R"(])", "SP0115"},
      {R"("trip": 2)", R"("trip": 0)", "SP0117"},
      // state, outputs, claims
      {R"("next": "gu")", R"("next": "noise")", "SP0123"},
      {R"("role": "exp_avg", "param": "w")", R"("role": "exp_avg", "param": "v")", "SP0111 SP0111 SP0501"},
      {R"("role": "exp_avg", "param": "g")", R"("role": "exp_avg", "param": "w")", "SP0123 SP0111 SP0501"},
      {R"({"name": "step", "next": "step"})", R"({"name": "step", "dims": [], "next": "step"})", ""},
      {R"(,
       {"name": "step", "next": "step"})",
       "", "SP0501 SP0119"},
      {R"({"name": "loss", "value": "l", "partial": {"tp": "sum"}})", "", "SP0110"},
      {R"("below": 100)", R"("below": 100), "role": "x")", "unreadable: SP0001"},
      {R"("type": "i32[4,6]")", R"("type": "f32[4,6]")", "SP0123"},
      // schedule and checkpoint
      {R"("microbatches": 2)", R"("microbatches": 0)", "SP0121"},
      {R"("key": "b", "state": "gu")", R"("key": "a", "state": "gu")", "SP0119"},
      {R"("key": "b", "state": "gu")", R"("key": "b", "state": "w")", "SP0119"},
      {R"("key": "b", "state": "gu")", R"("key": "b", "state": "nothing")", "SP0119"},
  };
  for (const Case& each : cases) {
    const std::string codes = codes_of(edited(each.from, each.to));
    if (each.codes.starts_with("unreadable")) {
      EXPECT_TRUE(codes.starts_with(each.codes)) << each.to << " gave " << codes;
    } else {
      EXPECT_EQ(codes, each.codes) << each.from << "  ->  " << each.to;
    }
  }
}

// Programs built in memory have not passed the reader.
TEST(Validate, ProgramsBuiltInMemoryAreChecked) {
  using Edit = std::function<void(Document&)>;
  const auto stage = [](Document& d) -> StageProgram& { return d.plan.stages[0]; };
  struct Case {
    const char* what;
    Edit edit;
    std::string codes;
  };
  const std::vector<Case> cases = {
      {"no such operand", [&](Document& d) { stage(d).program.body[0].inputs[0] = ValueId{999}; }, "SP0122"},
      {"invalid result", [&](Document& d) { stage(d).program.body[0].outputs[0] = ValueId{}; }, "SP0122"},
      {"use before definition", [&](Document& d) { std::swap(stage(d).program.body[1], stage(d).program.body[2]); },
       "SP0122"},
      {"two definitions", [&](Document& d) { stage(d).program.body.push_back(stage(d).program.body[0]); },
       "SP0122 SP0122"},
      {"same name", [&](Document& d) { stage(d).program.values[0].name = "w"; }, "SP0122"},
      {"wrong type",
       [&](Document& d) {
         stage(d).program.values[static_cast<std::size_t>(stage(d).program.body[0].outputs[0].index)].type.shape[0] = 2;
       },
       "SP0008"},
      {"missing attribute", [&](Document& d) { stage(d).program.body[0].attributes = {}; }, "SP0122"},
      {"attribute of another kind",
       [&](Document& d) { stage(d).program.body[0].attributes.set("start", std::string("1")); }, "SP0122"},
      {"unknown attribute", [&](Document& d) { stage(d).program.body[0].attributes.set("colour", std::int64_t{1}); },
       "SP0122"},
      {"unknown variable", [&](Document& d) { stage(d).program.body[0].attributes.set("start", variable_expr("q")); },
       "SP0007"},
      {"loop without body", [&](Document& d) { stage(d).program.body[4].region = nullptr; }, "SP0122 SP0121"},
      {"loop operands", [&](Document& d) { stage(d).program.body[4].inputs.clear(); }, "SP0122"},
      {"loop index",
       [&](Document& d) {
         stage(d).program.body[4].region = std::make_shared<Region>(*stage(d).program.body[4].region);
         stage(d).program.body[4].region->index = "tp";
       },
       "SP0117"},
      {"escape from a loop",
       [&](Document& d) { stage(d).state[2].next = stage(d).program.body[4].region->body[0].outputs[0]; },
       "SP0122 SP0123"},
      {"communication in the reference",
       [&](Document& d) {
         Builder builder(d.reference.program, [](const std::string&) { return std::int64_t{2}; });
         builder.op(OpCode::all_reduce, {d.reference.state[0].value},
                    {{"axes", std::vector<std::string>{"tp"}}, {"reduce", std::string("sum")}});
       },
       "SP0008 SP0115"},
      {"two bindings", [&](Document& d) { stage(d).state[0].binding.buffer = "bucket"; }, "SP0111"},
      {"no binding", [&](Document& d) { stage(d).state[1].binding.fused.clear(); },
       "SP0111 SP0501 SP0501"},
      {"unknown mesh", [&](Document& d) { stage(d).state[0].binding.placement.mesh = "none"; }, "SP0007"},
      {"unknown axis", [&](Document& d) { stage(d).state[0].binding.placement.dims[0].digits[0].axis = "none"; },
       "SP0101"},
      {"unknown buffer", [&](Document& d) { stage(d).state[2].binding.buffer = "none"; },
       "SP0007 SP0501 SP0501 SP0501"},
      {"zero digit", [&](Document& d) { stage(d).state[0].binding.placement.dims[0].digits[1].size = 0; }, "SP0118"},
      {"huge digits",
       [&](Document& d) {
         for (Digit& digit : stage(d).state[0].binding.placement.dims[0].digits) digit.size = std::int64_t{1} << 62;
       },
       "SP0104"},
      {"state named otherwise", [&](Document& d) { stage(d).state[3].name = "other"; }, "SP0123 SP0119"},
      {"no stage", [&](Document& d) { d.plan.stages.clear(); }, "SP0125"},
      {"no mesh", [&](Document& d) { d.plan.meshes.clear(); }, "SP0105"},
      {"huge mesh", [&](Document& d) { d.plan.meshes[0].axes[0].size = std::int64_t{1} << 62; }, "SP0105"},
      {"output shows another tensor", [&](Document& d) { d.plan.stages[1].outputs[0].name = "w"; }, "SP0111 SP0110"},
      {"huge extent", [&](Document& d) { d.reference.program.values[0].type.shape = {std::int64_t{1} << 41}; },
       "SP0118 SP0102"},
      {"two schedules", [&](Document& d) { d.plan.schedule->actions = {{"0F0"}}; }, "SP0121"},
      {"two meshes of one name", [&](Document& d) { d.plan.meshes[1].name = "dense"; }, "SP0105"},
      {"slice beyond the end", [&](Document& d) { stage(d).program.body[0].attributes.set("start", constant_expr(2)); },
       "SP0008"},
      {"two streams", [&](Document& d) { d.plan.rng.push_back(d.plan.rng[0]); }, "SP0006"},
      {"two stages", [&](Document& d) { d.plan.stages[1].name = "first"; }, "SP0006"},
  };
  for (const Case& each : cases) {
    Document document = base_document();
    ASSERT_FALSE(document.plan.stages.empty());
    each.edit(document);
    EXPECT_EQ(codes_of(document), each.codes) << each.what;
  }
}

TEST(Validate, FindingsAreBounded) {
  Document document = base_document();
  ASSERT_FALSE(document.plan.stages.empty());
  const Instruction bad = document.plan.stages[0].program.body[0];
  for (int i = 0; i < 10000; ++i) document.plan.stages[0].program.body.push_back(bad);
  DiagnosticSink sink;
  validate(document, sink);
  EXPECT_GE(sink.error_count(), 50U);
  EXPECT_LE(sink.error_count(), 100U);
}

// The exact-cover claim, by brute force: a placement that passes represents every element once for each set
// of replicas, under the digit semantics of placement.h.
TEST(Validate, AcceptedPlacementsCoverExactlyOnce) {
  const std::vector<std::string> layouts = {R"([["tp"], []])",
                                            R"([["tp", "dp"], []])",
                                            R"([["dp", 2, "tp"], []])",
                                            R"([["tp:(1)2", 8], ["tp:(2)2", 8]])",
                                            R"([["tp:(2)2", 8], ["tp:(1)2", 8]])",
                                            R"([[2, "tp", 2], ["dp"]])",
                                            R"([["tp:(1)2", "dp", "tp:(2)2"], []])",
                                            R"([["tp"], ["tp:(1)2"]])",
                                            R"([["tp:(2)2", 2, "tp:(1)4"], []])",
                                            R"([["dp"], ["dp", 8]])",
                                            R"([[4], []])"};
  int accepted = 0;
  for (const std::string& dims : layouts) {
    std::string text =
        R"({"shardproof": 1, "mesh": [["dp", 2], ["tp", 4]], "reference": {"state": [{"name": "w", "type": "f32[16,16]", "next": "w"}]},
      "state": [{"name": "w", "dims": )" +
        dims + R"(, "next": "w"}]})";
    DiagnosticSink sink;
    const auto document = read_document(std::make_shared<SourceFile>("t", text), sink);
    ASSERT_TRUE(document) << dims;
    const bool good = codes_of(*document).empty();
    const Placement& placement = document->plan.stages[0].state[0].binding.placement;
    const Mesh& mesh = document->plan.meshes[0];
    // Count how many (rank, local index) pairs represent each element.
    std::vector<int> count(256, 0);
    for (std::int64_t rank = 0; rank < 8; ++rank) {
      const Coordinate coordinate = coordinate_of(mesh, rank);
      // Positions of one dimension that this rank holds.
      const auto positions = [&](const DimLayout& layout) {
        std::vector<std::int64_t> held = {0};
        for (const Digit& digit : layout.digits) {
          std::vector<std::int64_t> next;
          for (const std::int64_t prefix : held) {
            if (digit.is_local()) {
              for (std::int64_t v = 0; v < digit.size; ++v) next.push_back(prefix * digit.size + v);
            } else {
              const std::size_t axis = *mesh.find_axis(digit.axis);
              const std::int64_t c = coordinate[axis] / (mesh.axes[axis].size / (digit.pre * digit.size)) % digit.size;
              next.push_back(prefix * digit.size + c);
            }
          }
          held = next;
        }
        return held;
      };
      for (const std::int64_t i : positions(placement.dims[0])) {
        for (const std::int64_t j : positions(placement.dims[1])) {
          if (i < 16 && j < 16) ++count[static_cast<std::size_t>(i * 16 + j)];
        }
      }
    }
    const bool uniform = std::all_of(count.begin(), count.end(), [&](int c) { return c == count[0] && c > 0; });
    EXPECT_EQ(good, uniform) << dims;
    if (good) ++accepted;
  }
  EXPECT_EQ(accepted, 7);
}

}  // namespace
}  // namespace shardproof::ir
