#include "ir/infer_type.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>

#include "type_samples.h"

namespace shardproof::ir {
namespace {

TEST(TypeRules, EveryOperatorHasOne) {
  const std::map<OpCode, TypeSample> samples = type_samples();
  for (const OpSchema& schema : op_table()) {
    if (schema.code == OpCode::loop) continue;  // typed by its carries
    const auto sample = samples.find(schema.code);
    ASSERT_NE(sample, samples.end()) << schema.name << " has no sample";
    const auto inferred = infer_sample(schema.code, sample->second);
    if (const auto* error = std::get_if<TypeError>(&inferred)) {
      ADD_FAILURE() << schema.name << ": expected " << error->expected << ", found " << error->found;
      continue;
    }
    EXPECT_EQ(std::get<std::vector<std::string>>(inferred), sample->second.results) << schema.name;
    EXPECT_EQ(sample->second.results.size(), static_cast<std::size_t>(schema.results)) << schema.name;
  }
}

// Generic ways to be wrong, tried on every sample: the schema refuses them before a rule runs.
TEST(TypeRules, SchemaRefusesBrokenInstructions) {
  for (const auto& [code, sample] : type_samples()) {
    const OpSchema& schema = schema_of(code);
    for (std::size_t i = 0; i < sample.attributes.size(); ++i) {
      TypeSample missing = sample;
      missing.attributes.erase(missing.attributes.begin() + static_cast<std::ptrdiff_t>(i));
      const auto attribute = std::find_if(schema.attributes.begin(), schema.attributes.end(),
                                          [&](const AttrSchema& a) { return a.name == sample.attributes[i].first; });
      ASSERT_NE(attribute, schema.attributes.end()) << schema.name;
      EXPECT_EQ(check_schema(instruction_of(code, missing)).has_value(), attribute->required)
          << schema.name << " " << attribute->name;
      TypeSample other = sample;
      other.attributes[i].second = attribute->kind == AttrKind::groups ? AttrValue(true) : AttrValue(Groups{});
      EXPECT_TRUE(check_schema(instruction_of(code, other))) << schema.name << " " << attribute->name;
    }
    TypeSample unknown = sample;
    unknown.attributes.emplace_back("colour", AttrValue(std::string("red")));
    EXPECT_TRUE(check_schema(instruction_of(code, unknown))) << schema.name;
    TypeSample fewer = sample;
    if (schema.min_inputs > 0) {
      fewer.operands.resize(static_cast<std::size_t>(schema.min_inputs) - 1);
      EXPECT_TRUE(check_schema(instruction_of(code, fewer))) << schema.name;
    }
    TypeSample more = sample;
    if (schema.max_inputs >= 0) {
      more.operands.resize(static_cast<std::size_t>(schema.max_inputs) + 1, "f32[4]");
      EXPECT_TRUE(check_schema(instruction_of(code, more))) << schema.name;
    }
  }
}

class Refused : public ::testing::Test {
 protected:
  void SetUp() override { samples_ = type_samples(); }

  void refused(OpCode code, const std::function<void(TypeSample&)>& change) {
    TypeSample sample = samples_.at(code);
    change(sample);
    const auto inferred = infer_sample(code, sample);
    const auto* error = std::get_if<TypeError>(&inferred);
    ASSERT_NE(error, nullptr) << schema_of(code).name << " accepted";
    EXPECT_FALSE(error->expected.empty());
    EXPECT_FALSE(error->found.empty());
  }
  void refused(OpCode code, std::vector<std::string> operands) {
    refused(code, [&](TypeSample& sample) { sample.operands = std::move(operands); });
  }
  void refused(OpCode code, const std::string& attribute, AttrValue value) {
    refused(code, [&](TypeSample& sample) { set(sample, attribute, value); });
  }
  void accepted(OpCode code, const std::function<void(TypeSample&)>& change, std::vector<std::string> results) {
    TypeSample sample = samples_.at(code);
    change(sample);
    const auto inferred = infer_sample(code, sample);
    if (const auto* error = std::get_if<TypeError>(&inferred)) {
      FAIL() << schema_of(code).name << ": expected " << error->expected << ", found " << error->found;
    }
    EXPECT_EQ(std::get<std::vector<std::string>>(inferred), results) << schema_of(code).name;
  }
  void accepted(OpCode code, std::vector<std::string> operands, std::vector<std::string> results) {
    accepted(code, [&](TypeSample& sample) { sample.operands = std::move(operands); }, std::move(results));
  }

  static void set(TypeSample& sample, const std::string& attribute, AttrValue value) {
    for (auto& [name, old] : sample.attributes) {
      if (name == attribute) {
        old = std::move(value);
        return;
      }
    }
    sample.attributes.emplace_back(attribute, std::move(value));
  }
  static void drop(TypeSample& sample, const std::string& attribute) {
    std::erase_if(sample.attributes, [&](const auto& entry) { return entry.first == attribute; });
  }

  std::map<OpCode, TypeSample> samples_;
};

using TypeRulesSource = Refused;

TEST_F(TypeRulesSource, ConstantsFitTheirDtype) {
  const auto with_type = [](const char* type) { return [=](TypeSample& s) { s.declared = {type}; }; };
  refused(OpCode::constant, with_type("i64[]"));  // 1/8
  refused(OpCode::constant, with_type("bool[]"));
  refused(OpCode::constant, [](TypeSample& s) { s.declared.clear(); });
  const auto number = [](std::int64_t value, const char* type) {
    return [=](TypeSample& s) {
      set(s, "value", Rational(value));
      s.declared = {type};
    };
  };
  accepted(OpCode::constant, number(255, "u8[]"), {"u8[]"});
  refused(OpCode::constant, number(256, "u8[]"));
  refused(OpCode::constant, number(-1, "u8[]"));
  refused(OpCode::constant, number(128, "i8[]"));
  refused(OpCode::constant, number(std::int64_t{1} << 31, "i32[]"));
  accepted(OpCode::constant, number(1, "bool[2]"), {"bool[2]"});
  refused(OpCode::constant, number(2, "bool[2]"));
}

TEST_F(TypeRulesSource, NegativeInfinityIsAFloatAndReplacesTheValue) {
  const auto infinite = [](const char* type, bool keep_value) {
    return [=](TypeSample& s) {
      if (!keep_value) drop(s, "value");
      set(s, "negative_infinity", true);
      s.declared = {type};
    };
  };
  accepted(OpCode::constant, infinite("f32[2]", false), {"f32[2]"});
  refused(OpCode::constant, infinite("f32[2]", true));
  refused(OpCode::constant, infinite("i64[2]", false));
  refused(OpCode::constant, [](TypeSample& s) { drop(s, "value"); });
}

TEST_F(TypeRulesSource, TablesAndIotasFitTheirShape) {
  refused(OpCode::table, [](TypeSample& s) { s.declared = {"i64[4]"}; });
  refused(OpCode::table, "values", std::vector<Rational>{1, Rational(1, 2), 3});
  refused(OpCode::iota, "dim", std::int64_t{2});
  refused(OpCode::iota, "dim", std::int64_t{-1});
  refused(OpCode::iota, [](TypeSample& s) { s.declared = {"bool[2,2]"}; });
  refused(OpCode::iota, [](TypeSample& s) { s.declared = {"u8[2,257]"}; });
  accepted(OpCode::iota, [](TypeSample& s) { s.declared = {"u8[2,256]"}; }, {"u8[2,256]"});
  refused(OpCode::rng_uniform, [](TypeSample& s) { s.declared = {"i64[4]"}; });
  refused(OpCode::rng_uniform, "offsets", std::vector<CoordExpr>(2));
  accepted(OpCode::rng_uniform, [](TypeSample& s) { set(s, "offsets", std::vector<CoordExpr>(1)); }, {"f32[4]"});
}

using TypeRulesStructure = Refused;

TEST_F(TypeRulesStructure, ReshapeTransposeBroadcast) {
  refused(OpCode::reshape, "shape", Ints{5, 5});
  refused(OpCode::reshape, "shape", Ints{-4, -6});
  refused(OpCode::reshape, "shape", Ints{24, 0});
  accepted(OpCode::reshape, [](TypeSample& s) { s.operands = {"i8[1,1]"}; set(s, "shape", Ints{}); }, {"i8[]"});
  refused(OpCode::transpose, "perm", Ints{0, 1});
  refused(OpCode::transpose, "perm", Ints{0, 1, 1});
  refused(OpCode::transpose, "perm", Ints{0, 1, 3});
  refused(OpCode::transpose, "perm", Ints{0, 1, -1});
  refused(OpCode::broadcast, "dims", Ints{0});  // 6 against 4
  refused(OpCode::broadcast, "dims", Ints{3});
  refused(OpCode::broadcast, "dims", Ints{});
  refused(OpCode::broadcast, [](TypeSample& s) { s.operands = {"f32[6,6]"}; set(s, "dims", Ints{1, 1}); });
  accepted(OpCode::broadcast, [](TypeSample& s) { s.operands = {"f32[1]"}; }, {"f32[4,6,2]"});
  accepted(OpCode::broadcast, [](TypeSample& s) { s.operands = {"f32[]"}; set(s, "dims", Ints{}); }, {"f32[4,6,2]"});
}

TEST_F(TypeRulesStructure, SliceStaysInside) {
  refused(OpCode::slice, "dim", std::int64_t{2});
  refused(OpCode::slice, "size", std::int64_t{0});
  refused(OpCode::slice, "size", std::int64_t{-3});
  refused(OpCode::slice, "stride", std::int64_t{0});
  refused(OpCode::slice, "stride", std::int64_t{5});  // 0, 5, 10
  refused(OpCode::slice, "start", constant_expr(6));  // 6, 8, 10
  refused(OpCode::slice, "start", constant_expr(-1));
  accepted(OpCode::slice, [](TypeSample& s) { set(s, "start", constant_expr(5)); }, {"f32[4,3]"});
  accepted(OpCode::slice, [](TypeSample& s) { drop(s, "stride"); set(s, "size", std::int64_t{10}); set(s, "start", constant_expr(0)); },
           {"f32[4,10]"});
  EXPECT_THROW(refused(OpCode::slice, "stride", std::numeric_limits<std::int64_t>::max()), std::overflow_error);
}

TEST_F(TypeRulesStructure, ConcatPadCast) {
  refused(OpCode::concat, {"f32[4,1]", "bf16[4,2]"});
  refused(OpCode::concat, {"f32[4,1]", "f32[5,1]"});
  refused(OpCode::concat, {"f32[4,1]", "f32[4]"});
  refused(OpCode::concat, "dim", std::int64_t{2});
  refused(OpCode::pad, "low", std::int64_t{-1});
  refused(OpCode::pad, "high", std::int64_t{-1});
  refused(OpCode::pad, [](TypeSample& s) { s.operands = {"i64[4,3]"}; set(s, "value", Rational(1, 2)); });
  refused(OpCode::cast, "dtype", std::string("float32"));
  const auto cast = [](const char* from, const char* to) {
    return [=](TypeSample& s) { s.operands = {from}; set(s, "dtype", std::string(to)); };
  };
  accepted(OpCode::cast, cast("bool[4]", "f32"), {"f32[4]"});
  accepted(OpCode::cast, cast("bool[4]", "i64"), {"i64[4]"});
  accepted(OpCode::cast, cast("i64[4]", "f32"), {"f32[4]"});
  accepted(OpCode::cast, cast("bool[4]", "bool"), {"bool[4]"});
  refused(OpCode::cast, cast("f32[4]", "i64"));  // truncates
  refused(OpCode::cast, cast("f32[4]", "bool"));
  refused(OpCode::cast, cast("i64[4]", "bool"));
}

TEST_F(TypeRulesStructure, IndexedOps) {
  refused(OpCode::take, {"f32[2,100,8]", "f32[5]"});
  refused(OpCode::take, "dim", std::int64_t{3});
  refused(OpCode::take, {"f32[]", "i32[5]"});
  accepted(OpCode::take, [](TypeSample& s) { drop(s, "dim"); s.operands = {"bf16[100,8]", "i64[]"}; }, {"bf16[8]"});
  refused(OpCode::scatter_add, {"f32[2,5,7,8]", "i32[7,5]"});
  refused(OpCode::scatter_add, {"f32[2,5]", "i32[5,7]"});
  refused(OpCode::scatter_add, {"bool[2,5,7,8]", "i32[5,7]"});
  refused(OpCode::scatter_add, "dim", std::int64_t{-1});
  refused(OpCode::scatter_add, "dim", std::int64_t{4});
  refused(OpCode::scatter_add, "size", std::int64_t{0});
  accepted(OpCode::scatter_add, [](TypeSample& s) { drop(s, "dim"); s.operands = {"f32[8]", "i64[]"}; }, {"f32[100,8]"});
  refused(OpCode::take_along, {"f32[4,6,9]", "i64[4,9]"});
  refused(OpCode::take_along, {"f32[]", "i64[]"});
  refused(OpCode::put_along, {"f32[4,6]", "i64[4]"});
  refused(OpCode::put_along, {"f32[4,6]", "f32[4,6]"});
  refused(OpCode::put_along, "size", std::int64_t{-9});
}

using TypeRulesElementwise = Refused;

TEST_F(TypeRulesElementwise, NeverBroadcastsNorMixesClasses) {
  for (const OpCode code : {OpCode::add, OpCode::mul, OpCode::max, OpCode::min, OpCode::sub, OpCode::div}) {
    refused(code, {"f32[4]", "f32[]"});
    refused(code, {"f32[4]", "f32[1]"});
    refused(code, {"f32[4]", "i64[4]"});
    refused(code, {"bool[4]", "bool[4]"});
  }
  refused(OpCode::div, {"i64[4]", "i64[4]"});
  accepted(OpCode::sub, {"i64[4]", "i64[4]"}, {"i64[4]"});
  for (const OpCode code : {OpCode::exp, OpCode::log, OpCode::sqrt, OpCode::rsqrt, OpCode::reciprocal, OpCode::tanh, OpCode::erf,
                            OpCode::sigmoid, OpCode::sin, OpCode::cos, OpCode::pow}) {
    refused(code, {"i64[4]"});
  }
  accepted(OpCode::neg, {"i32[4]"}, {"i32[4]"});
  refused(OpCode::abs, {"bool[4]"});
  accepted(OpCode::stop_gradient, {"bool[4]"}, {"bool[4]"});
}

TEST_F(TypeRulesElementwise, PromotesWithinAClassAsATenDoes) {
  accepted(OpCode::add, {"bf16[4]", "f32[4]"}, {"f32[4]"});
  accepted(OpCode::add, {"bf16[4]", "f16[4]"}, {"f32[4]"});
  accepted(OpCode::add, {"f8e4m3[4]", "bf16[4]"}, {"bf16[4]"});
  refused(OpCode::add, {"f8e4m3[4]", "f8e5m2[4]"});
  accepted(OpCode::add, {"i32[4]", "i64[4]"}, {"i64[4]"});
  accepted(OpCode::add, {"i8[4]", "u8[4]"}, {"i16[4]"});
  accepted(OpCode::add, {"f64[4]"}, {"f64[4]"});
}

TEST_F(TypeRulesElementwise, CompareSelectLogic) {
  refused(OpCode::compare, "direction", std::string("=="));
  refused(OpCode::compare, {"i64[4]", "f32[4]"});
  refused(OpCode::compare, {"bool[4]", "bool[4]"});  // lt
  accepted(OpCode::compare, [](TypeSample& s) { s.operands = {"bool[4]", "bool[4]"}; set(s, "direction", std::string("eq")); },
           {"bool[4]"});
  refused(OpCode::select, {"i64[4]", "f32[4]", "f32[4]"});
  refused(OpCode::select, {"bool[]", "f32[4]", "f32[4]"});
  refused(OpCode::select, {"bool[4]", "f32[4]", "i64[4]"});
  refused(OpCode::logical_and, {"bool[4]", "i64[4]"});
  refused(OpCode::logical_not, {"f32[4]"});
  refused(OpCode::power, {"f32[4]", "f32[4]"});
  refused(OpCode::power, {"i64[4]", "i64[4]"});
  refused(OpCode::power, {"f32[4]", "i64[]"});
}

using TypeRulesContraction = Refused;

TEST_F(TypeRulesContraction, EinsumAgreesWithItsSpec) {
  refused(OpCode::einsum, {"f32[2,3,5]", "f32[7,6]"});
  refused(OpCode::einsum, {"f32[2,3]", "f32[7,5]"});
  refused(OpCode::einsum, {"f32[2,3,5]"});
  refused(OpCode::einsum, {"f32[2,3,5]", "bf16[7,5]"});
  refused(OpCode::einsum, {"bool[2,3,5]", "bool[7,5]"});
  const auto spec = [](const char* text, std::vector<std::string> operands) {
    return [=](TypeSample& s) { s.operands = operands; set(s, "spec", std::string(text)); };
  };
  accepted(OpCode::einsum, spec(",ab->ba", {"f32[]", "f32[2,3]"}), {"f32[3,2]"});
  accepted(OpCode::einsum, spec("ab->", {"f32[2,3]"}), {"f32[]"});
  accepted(OpCode::einsum, spec("a,a,a->a", {"f32[2]", "f32[2]", "f32[2]"}), {"f32[2]"});
  for (const char* text : {"bsh,fh", "bsh,fh->bsq", "bbh,fh->bf", "bsh,fh->bb", "bs1,f1->bs", "bsh, fh->bsf", "bsh,fh->bsf->b", "...h,fh->...f"}) {
    refused(OpCode::einsum, "spec", std::string(text));
  }
}

TEST_F(TypeRulesContraction, ParseEinsumKeepsEmptyOperands) {
  const auto spec = parse_einsum(",ab,->ab");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->operands, (std::vector<std::string>{"", "ab", ""}));
  EXPECT_EQ(spec->result, "ab");
  EXPECT_TRUE(parse_einsum("->"));
  for (const char* text : {"", "-", ">", "a>a", "a-a", "->a", "aa->a", "a->aa", "a->b", "a\n->a"}) EXPECT_FALSE(parse_einsum(text)) << text;
}

TEST_F(TypeRulesContraction, ReductionsNameDistinctDimensions) {
  for (const OpCode code : {OpCode::reduce_sum, OpCode::reduce_max, OpCode::reduce_min}) {
    refused(code, "dims", Ints{1, 1});
    refused(code, "dims", Ints{3});
    refused(code, "dims", Ints{-1});
    refused(code, {"bool[2,3,5]"});
  }
}

using TypeRulesCommunication = Refused;

TEST_F(TypeRulesCommunication, GroupIsAxesOrGroups) {
  for (const OpCode code : {OpCode::all_reduce, OpCode::all_gather, OpCode::reduce_scatter, OpCode::all_to_all,
                            OpCode::broadcast_from, OpCode::permute}) {
    refused(code, [](TypeSample& s) { drop(s, "axes"); });
    refused(code, "groups", Groups{{0, 1, 2, 3}});  // beside axes
    refused(code, "axes", Texts{});
    refused(code, "axes", Texts{"tp", "tp"});
    refused(code, "axes", Texts{"pp"});
    const auto groups = [](Groups value) {
      return [=](TypeSample& s) {
        drop(s, "axes");
        set(s, "groups", value);
      };
    };
    accepted(code, groups({{0, 1, 2, 3}, {7, 6, 5, 4}}), samples_.at(code).results);
    refused(code, groups({}));
    refused(code, groups({{}}));
    refused(code, groups({{0, 1}, {2}}));
    refused(code, groups({{0, 1}, {1, 2}}));
    refused(code, groups({{0, -1}}));
  }
  TypeSample sample = samples_.at(OpCode::all_reduce);
  const auto without_mesh = infer_types(instruction_of(OpCode::all_reduce, sample), {type_of("f32[8,6]")}, {}, {});
  EXPECT_TRUE(std::holds_alternative<TypeError>(without_mesh));
}

TEST_F(TypeRulesCommunication, SizesFollowTheGroup) {
  const auto both = [](TypeSample& s) { set(s, "axes", Texts{"dp", "tp"}); };
  accepted(OpCode::all_gather, both, {"f32[64,6]"});
  accepted(OpCode::reduce_scatter, both, {"f32[1,6]"});
  accepted(OpCode::all_to_all, both, {"f32[1,48]"});
  accepted(OpCode::all_to_all, [](TypeSample& s) { set(s, "concat_dim", std::int64_t{0}); }, {"f32[8,6]"});
  refused(OpCode::reduce_scatter, "dim", std::int64_t{1});  // 6 / 4
  refused(OpCode::all_to_all, "split_dim", std::int64_t{1});
  refused(OpCode::all_to_all, "concat_dim", std::int64_t{2});
  refused(OpCode::all_gather, "dim", std::int64_t{-1});
  refused(OpCode::broadcast_from, "root", std::int64_t{4});
  refused(OpCode::broadcast_from, "root", std::int64_t{-1});
}

TEST_F(TypeRulesCommunication, ReduceFitsTheDtype) {
  for (const OpCode code : {OpCode::all_reduce, OpCode::reduce_scatter}) {
    refused(code, "reduce", std::string("mean"));
    refused(code, {"bool[8,6]"});
    refused(code, [](TypeSample& s) { s.operands = {"i64[8,6]"}; set(s, "reduce", std::string("avg")); });
  }
  refused(OpCode::recv, [](TypeSample& s) { s.declared.clear(); });
}

using TypeRulesMacro = Refused;

TEST_F(TypeRulesMacro, NormsAndActivations) {
  refused(OpCode::softmax, "dim", std::int64_t{2});
  refused(OpCode::softmax, {"i64[4,6]"});
  refused(OpCode::log_softmax, "dim", std::int64_t{-1});
  for (const OpCode code : {OpCode::silu, OpCode::gelu_tanh, OpCode::gelu_erf}) refused(code, {"i64[4]"});
  refused(OpCode::swiglu, {"f32[4,6]", "f32[4]"});
  refused(OpCode::swiglu, {"f32[4,6]", "bf16[4,6]"});
  refused(OpCode::rms_norm, {"f32[4,6]", "f32[4]"});
  refused(OpCode::rms_norm, {"bf16[4,6]", "f32[6]"});
  refused(OpCode::rms_norm, {"f32[]", "f32[]"});
  refused(OpCode::rms_norm, "eps", Rational(-1, 10));
  refused(OpCode::layer_norm, {"f32[4,6]", "f32[6]", "f32[4]"});
}

TEST_F(TypeRulesMacro, Attention) {
  refused(OpCode::rope, {"f32[2,5,3,7]", "f32[5,3]", "f32[5,3]"});
  refused(OpCode::rope, {"f32[2,5,3,8]", "f32[5,8]", "f32[5,8]"});
  refused(OpCode::rope, {"f32[2,5,3,8]", "f32[5,4]", "f32[3,4]"});
  refused(OpCode::rope, {"f32[5,3,8]", "f32[5,4]", "f32[5,4]"});
  refused(OpCode::attention, {"f32[2,5,6,8]", "f32[2,5,4,8]", "f32[2,5,4,8]"});  // 6 heads on 4
  refused(OpCode::attention, {"f32[2,5,6,8]", "f32[2,5,3,4]", "f32[2,5,3,4]"});
  refused(OpCode::attention, {"f32[2,5,6,8]", "f32[1,5,3,8]", "f32[1,5,3,8]"});
  refused(OpCode::attention, {"f32[2,5,6,8]", "f32[2,5,3,8]", "f32[2,7,3,8]"});
  refused(OpCode::attention, {"f32[2,5,6,8]", "f32[2,7,3,8]", "f32[2,7,3,8]"});  // causal
  refused(OpCode::attention, {"f32[2,5,6,8]", "bf16[2,5,3,8]", "f32[2,5,3,8]"});
  accepted(OpCode::attention,
           [](TypeSample& s) {
             s.operands = {"f32[2,5,6,8]", "f32[2,7,3,8]", "f32[2,7,3,8]"};
             set(s, "causal", false);
             set(s, "scale", Rational(1, 4));
           },
           {"f32[2,5,6,8]"});
}

TEST_F(TypeRulesMacro, LossAndOptimizer) {
  refused(OpCode::cross_entropy, {"f32[2,5,100]", "i32[2]"});
  refused(OpCode::cross_entropy, {"f32[2,5,100]", "f32[2,5]"});
  refused(OpCode::cross_entropy, {"f32[]", "i32[]"});
  const std::string p = "f32[4,6]";
  refused(OpCode::adamw, {p, "f32[6,4]", p, p, "i64[]", "f32[]"});
  refused(OpCode::adamw, {p, "bf16[4,6]", p, p, "i64[]", "f32[]"});
  refused(OpCode::adamw, {p, p, p, p, "f32[]", "f32[]"});
  refused(OpCode::adamw, {p, p, p, p, "i64[1]", "f32[]"});
  refused(OpCode::adamw, {p, p, p, p, "i64[]", "i64[]"});
  refused(OpCode::adamw, {p, p, p, p, "i64[]", "f32[4,6]"});
}

}  // namespace
}  // namespace shardproof::ir
