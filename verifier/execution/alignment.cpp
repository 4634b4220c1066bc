#include "verifier/execution/alignment.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/op_schema.h"
#include "verifier/execution/dense_domain.h"
#include "verifier/execution/field_inputs.h"
#include "verifier/execution/layout_hash.h"
#include "verifier/execution/parity.h"
#include "verifier/execution/step.h"

namespace shardproof::execution {

namespace {

using ir::Instruction;
using ir::OpCode;
using ir::ValueId;

constexpr std::uint64_t kSeed = 11;

class Undefined : public std::exception {};

std::size_t at(ValueId id) { return static_cast<std::size_t>(id.index); }

// Into how many microbatches the plan cuts: trips of loops, and how often a piece taken from a fixed place fits.
void collect_parts(const ir::Program& program, const std::vector<Instruction>& body, std::set<std::int64_t>& trips, std::set<std::int64_t>& parts) {
  for (const Instruction& each : body) {
    if (each.op == OpCode::slice && each.attributes.get<ir::CoordExpr>("start").is_constant()) {
      const std::int64_t whole = program.value(each.inputs[0]).type.shape[static_cast<std::size_t>(each.attributes.get<std::int64_t>("dim"))];
      const std::int64_t piece = each.attributes.get<std::int64_t>("size");
      constexpr std::int64_t most = 8;
      if (piece > 0 && whole % piece == 0 && whole / piece > 1 && whole / piece <= most) parts.insert(whole / piece);
    }
    if (!each.region) continue;
    trips.insert(each.region->trip);
    parts.insert(each.region->trip);
    collect_parts(program, each.region->body, trips, parts);
  }
}

// Numbers that a faulty plan multiplies with: sizes of axes and groups, trips, and their inverses and ratios.
std::vector<Multiplier> factors_of(const ir::Mesh& mesh, const std::set<std::int64_t>& trips) {
  std::set<std::int64_t> sizes = {1, 2};
  for (const ir::MeshAxis& axis : mesh.axes) {
    const std::set<std::int64_t> before = sizes;
    for (const std::int64_t size : before) sizes.insert(size * axis.size);
  }
  for (const std::int64_t trip : trips) {
    const std::set<std::int64_t> before = sizes;
    if (sizes.size() < 16)
      for (const std::int64_t size : before) sizes.insert(size * trip);
  }
  std::vector<ir::Rational> factors = {-1};
  const auto add = [&](ir::Rational factor) {
    if (!factor.is_one() && std::find(factors.begin(), factors.end(), factor) == factors.end()) factors.push_back(factor);
  };
  for (const std::int64_t size : sizes) add(size);
  for (const std::int64_t size : sizes) add({1, size});
  for (const std::int64_t a : sizes)
    for (const std::int64_t b : sizes) add({a, b});
  std::vector<Multiplier> multipliers;
  for (const ir::Rational factor : factors) multipliers.push_back(multiplier(factor));
  return multipliers;
}

class Aligner {
 public:
  explicit Aligner(const ir::Document& document)
      : document_(document), plan_(only_stage(document.plan).program), mesh_(document.plan.meshes.front()), index_(kSeed) {
    std::set<std::int64_t> trips, parts;
    collect_parts(plan_, plan_.body, trips, parts);
    factors_ = factors_of(mesh_, trips);
    parts_.assign(parts.begin(), parts.end());
    for (std::int64_t position = 0; position < mesh_.size(); ++position)
      mesh_order_.push_back(mesh_.devices.empty() ? position : mesh_.devices[static_cast<std::size_t>(position)]);
    result_.values.resize(plan_.values.size());
    seen_.resize(plan_.values.size());
    depends_.resize(plan_.values.size());
    definition_.resize(plan_.values.size());
    for (const ir::PlanInput& input : stage().inputs) given_.insert(input.value);
    for (const ir::PlanState& state : stage().state) given_.insert(state.value);
    for (const ValueId id : given_) depends_[at(id)] = true;
    index_body(plan_.body, nullptr);
  }

  Alignment run(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    auto values = field_values(domain_.numbers(), random_values(document_.reference, seed), &random);
    // Masks and all: with ones and zeros a count of tokens is some constant by chance.
    for (auto& [name, tensor] : values)
      if (ir::is_float(tensor.type.dtype))
        for (FieldNumber& x : tensor.data) x = domain_.numbers().any(random);
    for (const auto& [name, tensor] : values) index_.add(name, tensor, parts_);
    const ReferenceRunOf<FieldNumber> reference = run_reference(domain_, document_.reference, values, [this](const Instruction& each, ValueId id, const RankArrays& arrays) {
      add_reference(each, id, arrays);
    });
    LocalMaps maps;
    const auto results = run_plan(domain_, domain_.numbers(), document_.plan, reference.entry, random, maps, [this](const Instruction& each, ValueId id, const RankArrays& arrays) {
      observe(each, id, arrays);
    });
    find_sums_over_loops();
    compare(reference, results, maps);
    find_frontier();
    for (std::size_t v = 0; v < depends_.size(); ++v) {
      if (definition_[v] == nullptr || !depends_[v]) continue;
      ++result_.computed;
      result_.aligned += is_held({static_cast<std::int32_t>(v)}) ? 1 : 0;
    }
    return std::move(result_);
  }

 private:
  // What a value was in the iterations of the loops around it.
  struct Seen {
    std::int64_t times = 0;
    bool always = true, last = false;  // a reference value
    bool sums = false;                 // summands of one
    std::vector<FieldTensor> total;    // over all iterations
  };

  const ir::StageProgram& stage() const { return only_stage(document_.plan); }

  void index_body(const std::vector<Instruction>& body, const Instruction* loop) {
    for (const Instruction& each : body) {
      bool depends = each.region != nullptr;
      for (const ValueId input : each.inputs) depends = depends || depends_[at(input)];
      if (each.region) {
        for (const ir::Carry& carry : each.region->carries) depends_[at(carry.argument)] = true;
        index_body(each.region->body, &each);
      }
      for (const ValueId output : each.outputs) {
        depends_[at(output)] = depends;
        definition_[at(output)] = &each;
        if (loop != nullptr) loop_of_[output] = loop;
      }
    }
  }

  void add_reference(const Instruction& each, ValueId id, const RankArrays& arrays) {
    const FieldTensor tensor = domain_.download(arrays.front(), ir::DType::f64);
    for (const FieldNumber& x : tensor.data)
      if (domain_.numbers().undefined(x)) throw Undefined();
    const std::string& name = document_.reference.program.value(id).name;
    if (each.op == OpCode::constant) return;
    index_.add(name, tensor, parts_);
    // Sums over everything: a plan may divide by a count early or late.
    constexpr std::size_t most_scalars = 4;
    const bool counts = each.op == OpCode::reduce_sum && tensor.type.shape.empty() && scalars_ < most_scalars;
    const FieldNumber& number = tensor.data.front();
    if (!counts || number.kind != FieldNumber::Kind::number || number.p < 2) return;
    ++scalars_;
    for (const bool divides : {false, true}) factors_.push_back(multiplier(name, number.p, divides));
  }

  void observe(const Instruction& each, ValueId id, const RankArrays& arrays) {
    if (!depends_[at(id)] || each.op == OpCode::release) return;
    std::vector<FieldTensor> tensors;
    for (const std::int64_t rank : mesh_order_) tensors.push_back(domain_.download(arrays[static_cast<std::size_t>(rank)], ir::DType::f64));
    const std::optional<Held> held = index_.find(mesh_, tensors, factors_);
    Seen& seen = seen_[at(id)];
    if (!result_.values[at(id)]) result_.values[at(id)] = held;
    seen.last = held || is_zero(tensors);
    seen.always = seen.always && seen.last;
    if (loop_of_.contains(id)) add_up(tensors, seen);
    ++seen.times;
  }

  static bool is_zero(const std::vector<FieldTensor>& tensors) {
    return std::all_of(tensors.begin(), tensors.end(), [](const FieldTensor& tensor) {
      return std::all_of(tensor.data.begin(), tensor.data.end(), [](const FieldNumber& x) { return x.kind == FieldNumber::Kind::number && x.p == 0; });
    });
  }

  void add_up(std::vector<FieldTensor>& tensors, Seen& seen) const {
    if (seen.times == 0) {
      seen.total = std::move(tensors);
      return;
    }
    for (std::size_t r = 0; r < tensors.size(); ++r)
      for (std::size_t i = 0; i < tensors[r].data.size(); ++i)
        seen.total[r].data[i] = domain_.numbers().add(seen.total[r].data[i], tensors[r].data[i]);
  }

  // The gradient of one microbatch is a summand of the whole.
  void find_sums_over_loops() {
    for (const auto& [id, loop] : loop_of_) {
      Seen& seen = seen_[at(id)];
      if (seen.always || seen.times < 2) continue;
      std::optional<Held> held = index_.find(mesh_, seen.total, factors_);
      if (!held) continue;
      held->axes.push_back({loop->region->index, Held::Axis::Kind::partial, 0});
      result_.values[at(id)] = std::move(held);
      seen.sums = true;
    }
  }

  // A sum that a loop builds up is one at its end.
  bool is_held(ValueId id) const {
    if (given_.contains(id) || !depends_[at(id)]) return true;
    const Seen& seen = seen_[at(id)];
    return seen.times > 0 && (seen.always || seen.last || seen.sums);
  }

  template <typename Reference, typename Results>
  void compare(const Reference& reference, const Results& results, LocalMaps& maps) {
    std::size_t next = 0;
    const auto each = [&](const std::string& name, bool is_state, ValueId value, const ir::Binding& binding) {
      bool differs = false;
      for_each_claim(domain_.numbers(), document_.plan, reference.exit, binding, results[next++], maps,
                     [&](const Claim<FieldNumber>& claim) { differs = differs || !(claim.expected == claim.found); });
      if (differs) result_.differing.push_back({name, is_state, value});
    };
    for (const ir::PlanOutput& output : stage().outputs) each(output.name, false, output.value, output.binding);
    for (const ir::PlanState& state : stage().state) each(state.name, true, state.next, state.binding);
  }

  // A value is fine if it is a reference value, or if one is computed from it: fused values, shifted ids.
  void vouch(const std::vector<Instruction>& body) {
    for (auto each = body.rbegin(); each != body.rend(); ++each) {
      const auto fine = [&](ValueId id) { return fine_[at(id)] || is_held(id); };
      if (!each->region) {
        if (std::any_of(each->outputs.begin(), each->outputs.end(), fine))
          for (const ValueId input : each->inputs) fine_[at(input)] = true;
        continue;
      }
      // Twice: what one iteration hands over, the next one reads.
      for (int pass = 0; pass < 2; ++pass) {
        for (const ir::Carry& carry : each->region->carries)
          if (fine(carry.result) || (pass > 0 && fine_[at(carry.argument)])) fine_[at(carry.next)] = fine_[at(carry.init)] = true;
        vouch(each->region->body);
      }
    }
  }

  bool is_fine(ValueId id) const { return fine_[at(id)] || is_held(id); }

  void find_frontier() {
    fine_.assign(plan_.values.size(), false);
    vouch(plan_.body);
    std::set<ValueId> reached, found;
    std::vector<ValueId> open;
    const auto reach = [&](ValueId id) {
      if (!is_fine(id) && reached.insert(id).second) open.push_back(id);
    };
    for (const Alignment::Differing& differing : result_.differing) reach(differing.value);
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const Instruction* definition = definition_[at(id)];
      if (definition == nullptr) {  // carried by a loop
        for (const ValueId source : carried_from(id)) reach(source);
        continue;
      }
      if (definition->region) {
        for (const ir::Carry& carry : definition->region->carries)
          if (carry.result == id) {
            reach(carry.init);
            reach(carry.next);
          }
        continue;
      }
      if (std::all_of(definition->inputs.begin(), definition->inputs.end(), [&](ValueId input) { return is_fine(input) || definition_[at(input)] == nullptr; })) found.insert(id);
      for (const ValueId input : definition->inputs) reach(input);
    }
    result_.frontier.assign(found.begin(), found.end());
  }

  std::vector<ValueId> carried_from(ValueId argument) const {
    std::vector<ValueId> sources;
    for (const Instruction* each : definition_) {
      if (each == nullptr || !each->region) continue;
      for (const ir::Carry& carry : each->region->carries)
        if (carry.argument == argument) sources = {carry.init, carry.next};
    }
    return sources;
  }

  const ir::Document& document_;
  const ir::Program& plan_;
  const ir::Mesh& mesh_;
  DenseDomain<FieldNumbers> domain_{FieldNumbers{false}};
  TensorIndex index_;
  std::vector<Multiplier> factors_;
  std::size_t scalars_ = 0;  // among the factors
  std::vector<std::int64_t> parts_, mesh_order_;
  std::set<ValueId> given_;
  std::vector<Seen> seen_;                       // by value
  std::vector<bool> depends_;                    // on data; indices and constants are taken as they are
  std::map<ValueId, const Instruction*> loop_of_;  // the innermost one around a definition
  std::vector<bool> fine_;                       // vouched for by something computed from it
  std::vector<const Instruction*> definition_;   // null: given, or an argument of a loop
  Alignment result_;
};

}  // namespace

bool Held::is_partial() const {
  return std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.kind == Axis::Kind::partial; });
}

std::string describe(const Held& held) {
  std::string text, partial, shards;
  for (const Held::Axis& axis : held.axes) {
    if (axis.kind == Held::Axis::Kind::partial) partial += (partial.empty() ? "" : " and ") + axis.axis;
    else shards += ", dimension " + std::to_string(axis.dim) + " sharded over " + axis.axis;
  }
  if (!held.factor.is_one()) text = ir::to_string(held.factor) + " times ";
  if (!held.times.empty()) text = "`" + held.times + "` times ";
  if (!partial.empty()) text = "summands over " + partial + " of " + text;
  if (!held.part.empty()) text += held.part + " of ";
  text += "`" + held.reference + "`";
  if (!held.divided_by.empty()) text += " divided by `" + held.divided_by + "`";
  return text + shards;
}

std::optional<Alignment> align(const ir::Document& document) {
  if (document.plan.meshes.size() != 1 || document.plan.stages.size() != 1) return std::nullopt;
  for (const std::uint64_t seed : {1, 2, 3}) {
    try {
      return Aligner(document).run(seed);
    } catch (const Undefined&) {
    } catch (const ExecutionError&) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace shardproof::execution
