#include "tests/semantics/term_values.h"

#include <cmath>

#include "ir/check.h"

namespace shardproof::semantics_test {

using solvers::Assignment;
using solvers::IndexId;
using solvers::TensorId;
using solvers::TermId;
using solvers::TermPool;
using solvers::VarId;

namespace {

// What an access outside the shape reads: nothing may depend on it.
constexpr double kGarbage = 1234.5;

bool inside(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& indices) {
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (indices[d] < 0 || indices[d] >= shape[d]) return false;
  return true;
}

std::int64_t rank_at(const ir::Mesh* mesh, std::int64_t position) {
  return mesh == nullptr || mesh->devices.empty() ? position : mesh->devices[static_cast<std::size_t>(position)];
}

}  // namespace

TermValues::TermValues(solvers::AtomTable& atoms) : atoms_(atoms) {
  contents_.real = [this](TensorId tensor, const std::vector<std::int64_t>& indices) { return element(tensor, indices); };
  contents_.integer = [this](TensorId tensor, const std::vector<std::int64_t>& indices) {
    const solvers::Tensor& t = atoms_.pool().tensor(tensor);
    if (!inside(t.shape, indices)) return std::int64_t{0};
    return static_cast<std::int64_t>(data_.at(tensor)[static_cast<std::size_t>(execution::flat_index(t.shape, indices))]);
  };
}

void TermValues::set(TensorId tensor, std::vector<double> data) { data_[tensor] = std::move(data); }

void TermValues::set_literals(const verifier::LiteralTable& literals) {
  for (const auto& [key, tensor] : literals) {
    std::vector<double> data;
    for (const std::string& text : key.second) {
      const ir::Rational value = ir::parse_rational(text).value();
      data.push_back(static_cast<double>(value.num) / static_cast<double>(value.den));
    }
    set(tensor, std::move(data));
  }
}

void TermValues::set_stand_ins(const std::map<TermId, TermId>& stand_ins) {
  for (const auto& [term, access] : stand_ins) stand_ins_[atoms_.pool().node(access).tensor] = {access, term};
}

double TermValues::element(TensorId tensor, const std::vector<std::int64_t>& indices) {
  TermPool& pool = atoms_.pool();
  const std::vector<std::int64_t>& shape = pool.tensor(tensor).shape;
  if (!atoms_.has_definition(tensor)) {
    if (!inside(shape, indices)) return kGarbage;
    if (const auto stand_in = stand_ins_.find(tensor); stand_in != stand_ins_.end()) {
      const auto [access, term] = stand_in->second;
      Assignment values;
      for (std::size_t d = 0; d < shape.size(); ++d)
        for (VarId v : pool.members(pool.index(pool.node(access).indices[d]).free)) values.set(v, indices[d]);
      return at(term, values);
    }
    const auto found = data_.find(tensor);
    if (found == data_.end()) throw InternalError("no contents of tensor " + pool.tensor(tensor).name);
    return found->second[static_cast<std::size_t>(execution::flat_index(shape, indices))];
  }
  if (!inside(shape, indices)) return kGarbage;
  const auto [it, added] = known_.try_emplace({tensor, indices}, 0.0);
  if (!added) return it->second;
  Assignment values;
  for (std::size_t d = 0; d < shape.size(); ++d) values.set(pool.pattern(d, shape[d]), indices[d]);
  return known_[{tensor, indices}] = solvers::evaluate(pool, atoms_.definition(tensor), values, contents_);
}

double TermValues::at(TermId term, const Assignment& values) { return solvers::evaluate(atoms_.pool(), term, values, contents_); }

Difference compare_term(TermValues& values, TermPool& pool, TermId term, const ir::Mesh* mesh,
                        const std::vector<VarId>& coordinates, const execution::RankTensors& expected, double scale) {
  Difference result;
  for (std::size_t position = 0; position < expected.size(); ++position) {
    const std::int64_t rank = rank_at(mesh, static_cast<std::int64_t>(position));
    const execution::Tensor& wanted = expected[static_cast<std::size_t>(rank)];
    Assignment assignment;
    if (mesh != nullptr) {
      const ir::Coordinate c = ir::coordinate_of(*mesh, rank);
      for (std::size_t a = 0; a < c.size(); ++a) assignment.set(coordinates[a], c[a]);
    }
    for (std::size_t i = 0; i < wanted.data.size(); ++i) {
      const std::vector<std::int64_t> index = execution::unflatten(wanted.type.shape, static_cast<std::int64_t>(i));
      for (std::size_t d = 0; d < index.size(); ++d) assignment.set(pool.element(d, wanted.type.shape[d]), index[d]);
      const double e = wanted.data[i];
      if (std::isnan(e) || e == HUGE_VAL) {
        ++result.undefined;
        continue;
      }
      ++result.elements;
      const double found = values.at(term, assignment);
      if (found == e) continue;
      if (std::abs(found - e) <= 1e-10 * (scale + std::abs(e))) continue;
      if (result.first.empty()) {
        const std::string text = pool.to_string(term);
        result.first = "rank " + std::to_string(rank) + " element " + execution::describe_index(wanted.type.shape, static_cast<std::int64_t>(i)) +
                       ": executed " + std::to_string(e) + ", term " + std::to_string(found) + "\n  " + text.substr(0, 600);
      }
    }
  }
  return result;
}

TermId enter(solvers::AtomTable& atoms, TermValues& values, const std::string& name, const ir::TensorType& type, std::int64_t below,
             const ir::Mesh* mesh, const std::vector<VarId>& coordinates, const execution::RankTensors& contents) {
  TermPool& pool = atoms.pool();
  solvers::Tensor tensor{name, {}, below > 0, below};
  std::vector<IndexId> indices;
  const auto add = [&](VarId v) {
    tensor.shape.push_back(pool.var(v).extent);
    indices.push_back(pool.index_var(v));
  };
  for (VarId c : coordinates) add(c);
  for (std::size_t d = 0; d < type.shape.size(); ++d) add(pool.element(d, type.shape[d]));
  const TensorId id = atoms.opaque(std::move(tensor));
  std::vector<double> data;
  for (std::size_t position = 0; position < contents.size(); ++position) {
    const std::vector<double>& own = contents[static_cast<std::size_t>(rank_at(mesh, static_cast<std::int64_t>(position)))].data;
    data.insert(data.end(), own.begin(), own.end());
  }
  values.set(id, std::move(data));
  return below > 0 ? pool.index_value(pool.index_load(id, std::move(indices))) : pool.access(id, std::move(indices));
}

}  // namespace shardproof::semantics_test
