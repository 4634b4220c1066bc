#include "ir/op_schema.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>

#include "ir/check.h"
#include "ir/program.h"

namespace shardproof::ir {
namespace {

TEST(OpTable, HasOneRowPerOpcodeInOrder) {
  ASSERT_EQ(op_table().size(), static_cast<std::size_t>(OpCode::count_));
  for (std::size_t i = 0; i < op_table().size(); ++i) EXPECT_EQ(op_table()[i].code, static_cast<OpCode>(i)) << i;
  EXPECT_THROW(schema_of(OpCode::count_), InternalError);
}

TEST(OpTable, NamesAreUniqueAndFound) {
  std::set<std::string_view> names;
  for (const OpSchema& schema : op_table()) {
    EXPECT_TRUE(names.insert(schema.name).second) << schema.name;
    EXPECT_EQ(find_op(schema.name), schema.code);
    EXPECT_EQ(&schema_of(schema.code), &schema);
  }
  EXPECT_FALSE(find_op("matmul"));
  EXPECT_FALSE(find_op(""));
  EXPECT_FALSE(find_op("count_"));
}

TEST(OpTable, RowsAreWellFormed) {
  for (const OpSchema& schema : op_table()) {
    EXPECT_GE(schema.min_inputs, 0) << schema.name;
    EXPECT_TRUE(schema.max_inputs == -1 || schema.max_inputs >= schema.min_inputs) << schema.name;
    EXPECT_FALSE(schema.doc.empty()) << schema.name;
    EXPECT_EQ(schema.doc.find('\n'), std::string_view::npos) << schema.name;
    std::set<std::string_view> attributes;
    for (const AttrSchema& attribute : schema.attributes) {
      EXPECT_TRUE(attributes.insert(attribute.name).second) << schema.name << " " << attribute.name;
    }
  }
}

// Spelled as in the C++ enum, so that code, files and messages agree. A shifted row would show here.
TEST(OpTable, NamesAreTheEnumerators) {
  EXPECT_EQ(schema_of(OpCode::constant).name, "constant");
  EXPECT_EQ(schema_of(OpCode::put_along).name, "put_along");
  EXPECT_EQ(schema_of(OpCode::stop_gradient).name, "stop_gradient");
  EXPECT_EQ(schema_of(OpCode::rng_uniform).name, "rng_uniform");
  EXPECT_EQ(schema_of(OpCode::wait).name, "wait");
  EXPECT_EQ(schema_of(OpCode::loop).name, "loop");
  EXPECT_EQ(schema_of(OpCode::adamw).name, "adamw");
}

TEST(OpTable, CollectivesShareTheirGroupAttributes) {
  for (const OpCode code : {OpCode::all_reduce, OpCode::all_gather, OpCode::reduce_scatter, OpCode::all_to_all,
                            OpCode::broadcast_from, OpCode::permute}) {
    std::set<std::string_view> names;
    for (const AttrSchema& attribute : schema_of(code).attributes) names.insert(attribute.name);
    for (const char* name : {"axes", "groups", "async", "stream"}) EXPECT_TRUE(names.contains(name)) << schema_of(code).name;
  }
}

TEST(Attributes, AreSortedAndReplaced) {
  Attributes attributes;
  attributes.set("dim", std::int64_t{1});
  attributes.set("axes", std::vector<std::string>{"tp"});
  attributes.set("reduce", std::string("sum"));
  attributes.set("dim", std::int64_t{2});
  ASSERT_EQ(attributes.entries().size(), 3U);
  EXPECT_EQ(attributes.entries()[0].first, "axes");
  EXPECT_EQ(attributes.entries()[1].first, "dim");
  EXPECT_EQ(attributes.entries()[2].first, "reduce");
  EXPECT_EQ(attributes.get<std::int64_t>("dim"), 2);
  EXPECT_EQ(attributes.get_or<bool>("async", false), false);
  EXPECT_TRUE(attributes.has("axes"));
  EXPECT_FALSE(attributes.has("ax"));
  EXPECT_THROW(attributes.get<std::int64_t>("size"), InternalError);
  EXPECT_THROW(attributes.get<std::string>("dim"), InternalError);
}

TEST(Program, LooksUpValues) {
  Program program;
  program.values.push_back({"x", {DType::f32, {2}}, {}});
  EXPECT_EQ(program.find("x"), ValueId{0});
  EXPECT_FALSE(program.find("y").valid());
  EXPECT_EQ(program.value(ValueId{0}).name, "x");
  EXPECT_THROW(program.value(ValueId{1}), InternalError);
  EXPECT_THROW(program.value(ValueId{}), InternalError);
}

// Rows of the operators' table in ir/README.md, by each name in the first cell.
std::map<std::string, std::string> documented_rows() {
  std::map<std::string, std::string> rows;
  std::ifstream page(SHARDPROOF_SOURCE_DIR "/ir/README.md");
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("### ")) inside = line == "### Operators";
    if (!inside || !line.starts_with("| `")) continue;
    const std::string names = line.substr(0, line.find(" | "));
    for (std::size_t at = names.find('`'); at != std::string::npos; at = names.find('`', at + 1)) {
      const std::size_t end = names.find('`', at + 1);
      EXPECT_TRUE(rows.emplace(names.substr(at + 1, end - at - 1), line).second) << line;
      at = end;
    }
  }
  return rows;
}

TEST(OpTable, EveryOperatorAndAttributeIsDocumented) {
  std::map<std::string, std::string> rows = documented_rows();
  for (const OpSchema& schema : op_table()) {
    const auto row = rows.find(std::string(schema.name));
    ASSERT_NE(row, rows.end()) << schema.name;
    for (const AttrSchema& attribute : schema.attributes) {
      // What all collectives take is said once, below the table.
      const bool common = attribute.name == "axes" || attribute.name == "groups" || attribute.name == "async" ||
                          attribute.name == "stream";
      if (common) continue;
      const std::string name = "`" + std::string(attribute.name) + "`";
      const std::size_t at = row->second.find(name);
      ASSERT_NE(at, std::string::npos) << schema.name << " " << name;
      EXPECT_EQ(row->second.substr(at + name.size(), 1) == "?", !attribute.required) << schema.name << " " << name;
    }
    rows.erase(row);
  }
  EXPECT_TRUE(rows.empty()) << rows.begin()->first << " is no operator";
}

}  // namespace
}  // namespace shardproof::ir
