// Layouts of inputs, states and members of buffers. Tensors whose names differ in numbers only, and inputs of one shape, are
// expected to be laid out alike.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ir/check.h"
#include "ir/reference_index.h"
#include "verifier/plan_repairs.h"
#include "verifier/repairs_parts.h"

namespace shardproof::verifier {
namespace {

constexpr std::size_t kMaxOthers = 3;   // layouts tried for one entry
constexpr std::size_t kMaxBuffers = 4;  // looked at member by member
constexpr std::size_t kMaxClaims = 4;   // that fail, for their layouts to be suspects
constexpr int kMaxMoves = 6;            // between a suspect and what is declared
constexpr std::size_t kMaxFailing = 4;  // members of a buffer, for single ones to be at fault
constexpr const char* kUnlikeUse = "is laid out in another way than it is used";

// One declared tensor, or several fused ones: a single one is one part.
struct Layout {
  std::vector<ir::FusedPart> parts;
  std::int64_t fuse_axis = 0;
};

std::string text(const Layout& layout, const std::function<std::string(const std::string&)>& name) {
  std::string all;
  for (const ir::FusedPart& part : layout.parts) {
    all += (all.empty() ? "" : ", ") + name(part.of) + "[";
    for (const ir::DimLayout& dim : part.placement.dims) {
      all += "[";
      for (const ir::Digit& digit : dim.digits) {
        if (all.back() != '[') all += ", ";
        const std::string size = std::to_string(digit.size);
        all += digit.is_local() ? size : digit.pre == 1 ? digit.axis : digit.axis + ":(" + std::to_string(digit.pre) + ")" + size;
      }
      all += dim.permutation == ir::Permutation::zigzag ? "; zigzag]" : "]";
    }
    all += "]";
  }
  return layout.parts.size() < 2 ? all : all + " joined along " + std::to_string(layout.fuse_axis);
}

std::string without_digits(std::string name) {
  std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
  return name;
}

// Where a layout is declared.
struct Entry {
  enum class Kind { input, state, member };
  Kind kind = Kind::input;
  std::size_t index = 0, member = 0;  // in the list of its kind: of buffers and their members
  std::string name, group;
  ir::ValueId value;  // of the plan; of members, the first state in the buffer
  ir::Span span;
  Layout layout;
  std::function<void(ir::Document&, const Layout&)> set;
  std::string form() const { return text(layout, without_digits); }
  std::string shown(const Layout& other) const {
    return text(other, [&](const std::string& of) { return other.parts.size() < 2 ? std::string() : "`" + of + "` "; });
  }
};

std::int64_t local_elements(const Layout& layout) {
  std::int64_t all = 0;
  for (const ir::FusedPart& part : layout.parts) {
    std::int64_t count = 1;
    for (const std::int64_t extent : ir::local_shape(part.placement)) count = ir::checked_mul(count, extent);
    all = ir::checked_add(all, count);
  }
  return all;
}

Layout layout_of(const ir::Binding& binding) {
  if (!binding.fused.empty()) return {binding.fused, binding.fuse_axis};
  return {{{binding.of, binding.placement}}, 0};
}

void set_layout(ir::Binding& binding, const Layout& layout) {
  if (binding.fused.empty()) {
    binding.placement.dims = layout.parts[0].placement.dims;
  } else {
    binding.fused = layout.parts;
    binding.fuse_axis = layout.fuse_axis;
  }
}

// What belongs together: the same tensors but for numbers in their names, of the same size on a rank.
std::string group_of(const Layout& layout) {
  std::vector<std::string> names;
  for (const ir::FusedPart& part : layout.parts) names.push_back(without_digits(part.of));
  std::sort(names.begin(), names.end());
  std::string group = std::to_string(local_elements(layout));
  for (const std::string& name : names) group += " " + name;
  return group;
}

std::vector<Entry> entries_of(const ir::Document& document) {
  std::vector<Entry> entries;
  const ir::StageProgram& stage = document.plan.stages.front();
  const ir::ReferenceIndex reference(document.reference);
  for (std::size_t k = 0; k < stage.inputs.size(); ++k) {
    const ir::PlanInput& input = stage.inputs[k];
    Entry e{Entry::Kind::input, k, 0, stage.program.value(input.value).name, "input", input.value, input.span, layout_of(input.binding), {}};
    if (input.binding.of.empty()) continue;
    for (const std::int64_t extent : reference.type(reference.input(input.binding.of)).shape) e.group += " " + std::to_string(extent);
    e.layout.parts[0].of.clear();  // inputs have little in common but their shape
    e.set = [k](ir::Document& d, const Layout& layout) { set_layout(d.plan.stages.front().inputs[k].binding, layout); };
    entries.push_back(std::move(e));
  }
  for (std::size_t k = 0; k < stage.state.size(); ++k) {
    const ir::PlanState& state = stage.state[k];
    Entry e{Entry::Kind::state, k, 0, state.name, {}, state.value, state.span, layout_of(state.binding), {}};
    if (!state.binding.buffer.empty()) e.layout.parts[0].of = state.binding.buffer;
    e.group = group_of(e.layout);
    e.set = [k](ir::Document& d, const Layout& layout) { set_layout(d.plan.stages.front().state[k].binding, layout); };
    entries.push_back(std::move(e));
  }
  for (std::size_t b = 0; b < document.plan.buffers.size(); ++b) {
    const ir::FlatBuffer& buffer = document.plan.buffers[b];
    ir::ValueId value;
    for (const ir::PlanState& state : stage.state)
      if (state.binding.buffer == buffer.name && !value.valid()) value = state.value;
    for (std::size_t m = 0; m < buffer.members.size(); ++m) {
      const ir::BufferMember& member = buffer.members[m];
      const Layout layout = member.fused.empty() ? Layout{{{member.param, member.placement}}, 0} : Layout{member.fused, member.fuse_axis};
      Entry e{Entry::Kind::member, b, m, buffer.name, group_of(layout), value, member.span, layout, {}};
      e.set = [b, m](ir::Document& d, const Layout& changed) {
        ir::BufferMember& own = d.plan.buffers[b].members[m];
        if (own.fused.empty()) {
          own.param = changed.parts[0].of;
          own.placement.dims = changed.parts[0].placement.dims;
        } else {
          own.fused = changed.parts;
          own.fuse_axis = changed.fuse_axis;
        }
      };
      if (value.valid()) entries.push_back(std::move(e));
    }
  }
  return entries;
}

// The layout with the tensors of `own` in place of those that they are like.
std::optional<Layout> carried_over(const Layout& layout, const Layout& own) {
  Layout result{{}, layout.fuse_axis};
  for (const ir::FusedPart& part : layout.parts) {
    const ir::FusedPart* mine = nullptr;
    for (const ir::FusedPart& p : own.parts) {
      if (without_digits(p.of) != without_digits(part.of)) continue;
      if (mine != nullptr) return std::nullopt;
      mine = &p;
    }
    if (mine == nullptr) return std::nullopt;
    result.parts.push_back(*mine);
    result.parts.back().placement.dims = part.placement.dims;
  }
  return result;
}

Repair changed_layout(const Session& session, const Entry& e, const Layout& layout, const std::string& finding, std::string fix) {
  Repair r;
  r.code = "SP0206";
  r.name = "wrong-shard";
  r.finding = e.kind == Entry::Kind::member ? "is in a buffer with a member that " + finding : finding;
  r.fix = std::move(fix);
  r.expected = e.shown(layout);
  r.found = e.shown(e.layout);
  r.value = e.value;
  r.subject = session.plan_program().value(e.value).name;
  r.span = e.span;
  r.change = [set = e.set, layout](ir::Document& document) { set(document, layout); };
  return r;
}

}  // namespace

std::vector<Repair> layout_changes(Session& session) {
  const std::vector<Entry> entries = entries_of(session.document());
  std::map<std::string, std::vector<const Entry*>> groups;
  for (const Entry& e : entries) groups[e.group].push_back(&e);
  std::vector<Repair> repairs;
  for (const auto& [unused, alike] : groups) {
    std::map<std::string, std::vector<const Entry*>> forms;
    for (const Entry* e : alike) forms[e->form()].push_back(e);
    if (forms.size() < 2) continue;
    std::vector<const std::vector<const Entry*>*> order;  // rarest first: it is what is odd
    for (const auto& [form, having] : forms) order.push_back(&having);
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->size() < b->size(); });
    const std::size_t usual = order.back()->size();
    for (const auto* odd : order)
      for (const Entry* e : *odd) {
        std::size_t tried = 0;
        for (auto other = order.rbegin(); other != order.rend() && tried < kMaxOthers; ++other) {
          if (*other == odd || (*other)->size() < odd->size() || (odd->size() == usual && (*other)->size() < usual)) continue;
          const Entry& model = *(*other)->front();
          const auto layout = carried_over(model.layout, e->layout);
          if (!layout) continue;
          ++tried;
          const std::string like = model.name == e->name ? "`" + model.layout.parts[0].of + "`" : "`" + model.name + "`";
          repairs.push_back(changed_layout(session, *e, *layout, "is laid out in another way than " + like, "declare it as " + like + " is declared"));
        }
      }
  }
  return repairs;
}

namespace {

// Layouts with one change that keeps the size: parts, neighbouring digits or dimensions exchanged, another axis.
std::vector<std::pair<std::string, Layout>> variants(const Layout& layout, const ir::Mesh& mesh) {
  std::vector<std::pair<std::string, Layout>> found;
  const auto consider = [&](const std::string& fix, Layout changed) {
    if (local_elements(changed) == local_elements(layout)) found.emplace_back(fix, std::move(changed));
  };
  for (std::size_t a = 0; a < layout.parts.size(); ++a)
    for (std::size_t b = a + 1; b < layout.parts.size(); ++b) {
      Layout changed = layout;
      std::swap(changed.parts[a], changed.parts[b]);
      consider("exchange parts `" + layout.parts[a].of + "` and `" + layout.parts[b].of + "`", std::move(changed));
    }
  for (std::size_t p = 0; p < layout.parts.size(); ++p) {
    const std::vector<ir::DimLayout>& dims = layout.parts[p].placement.dims;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const auto with = [&](const std::string& fix, const std::function<void(std::vector<ir::DimLayout>&)>& change) {
        Layout changed = layout;
        change(changed.parts[p].placement.dims);
        consider(fix, std::move(changed));
      };
      const std::string dim = " of dimension " + std::to_string(d);
      for (std::size_t k = 0; k < dims[d].digits.size(); ++k) {
        const ir::Digit& digit = dims[d].digits[k];
        if (k + 1 < dims[d].digits.size() && !(digit == dims[d].digits[k + 1]))
          with("exchange digits " + std::to_string(k) + " and " + std::to_string(k + 1) + dim, [&](auto& all) { std::swap(all[d].digits[k], all[d].digits[k + 1]); });
        for (const ir::MeshAxis& axis : mesh.axes)
          if (!digit.is_local() && axis.name != digit.axis && axis.size == digit.size)
            with("use axis `" + axis.name + "` in place of `" + digit.axis + "`" + dim, [&](auto& all) { all[d].digits[k] = {axis.name, 1, axis.size}; });
      }
      if (d + 1 < dims.size() && !(dims[d] == dims[d + 1]))
        with("exchange the layouts of dimensions " + std::to_string(d) + " and " + std::to_string(d + 1), [&](auto& all) { std::swap(all[d], all[d + 1]); });
    }
  }
  return found;
}

// Which members of its buffer a failed claim fails on.
std::set<std::size_t> failing_members(Session& session, const Claim& claim) {
  std::set<std::size_t> failing;
  const ir::Document& document = session.document();
  const ir::ReferenceIndex reference(document.reference);
  ir::Plan plan = document.plan;
  ir::Binding binding = *claim.binding;
  binding.placement.pad = ir::PadValue::any;
  const auto buffer = std::find_if(plan.buffers.begin(), plan.buffers.end(), [&](const ir::FlatBuffer& b) { return b.name == binding.buffer; });
  const std::vector<ir::BufferMember> members = buffer->members;
  const ir::Program& entries = document.reference.program;
  Bindings bindings(session.atoms(), session.plan_semantics(), plan, [&](const std::string& param, const std::string& role) {
    return entries.value(reference.state_with_role(role, param)).name;
  });
  solvers::TermPool& pool = session.pool();
  for (std::size_t m = 0; m < members.size(); ++m) {
    buffer->members = {members[m]};
    // Where the buffer with this member alone promises anything.
    const auto care = attempt([&] {
      return bindings.bind(binding, session.plan_program().value(claim.value).type, [&](const std::string& name) {
        const ir::ValueId value = reference.state(name);
        return Denotation{session.reference_run().term(value), entries.value(value).type};
      }).care;
    });
    const auto equal = care ? attempt([&] { return session.prove_equal(claim.name, pool.mul(*care, claim.expected), pool.mul(*care, claim.found)) ? pool.one() : pool.zero(); }) : std::nullopt;
    if (!equal || *equal == pool.zero()) failing.insert(m);
  }
  return failing;
}

// What the values are copies of, or parts of.
std::set<ir::ValueId> moved_from(Session& session, const Blame& blame, const std::vector<ir::ValueId>& values) {
  std::set<ir::ValueId> found;
  std::vector<ir::ValueId> open = values;
  for (int level = 0; level < kMaxMoves && !open.empty(); ++level) {
    std::vector<ir::ValueId> before;
    for (const ir::ValueId v : open) {
      if (!found.insert(v).second || blame.definition(v) == Blame::npos) continue;
      const ir::Instruction& i = *session.plan_run().steps()[blame.definition(v)].instruction;
      if (level == 0 || passes_parts(i.op)) before.insert(before.end(), i.inputs.begin(), i.inputs.end());
    }
    open = std::move(before);
  }
  return found;
}

}  // namespace

std::vector<Repair> member_changes(Session& session) {
  const std::vector<Entry> entries = entries_of(session.document());
  const std::vector<ir::FlatBuffer>& buffers = session.document().plan.buffers;
  std::set<std::string> looked_at;
  std::vector<Repair> repairs;
  for (const Claim& claim : session.claims()) {
    if (claim.proved || claim.kind != Claim::Kind::state || claim.binding->buffer.empty() || looked_at.size() >= kMaxBuffers) continue;
    if (!looked_at.insert(claim.binding->buffer).second) continue;
    const auto buffer = std::find_if(buffers.begin(), buffers.end(), [&](const ir::FlatBuffer& b) { return b.name == claim.binding->buffer; });
    const std::set<std::size_t> failing = failing_members(session, claim);
    if (failing.size() > kMaxFailing) continue;  // not a matter of single members
    std::vector<const Entry*> members;
    for (const Entry& e : entries)
      if (e.kind == Entry::Kind::member && &buffers[e.index] == &*buffer && failing.count(e.member) != 0) members.push_back(&e);
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Entry& a = *members[i];
      for (std::size_t j = i + 1; j < members.size(); ++j) {
        const Entry& b = *members[j];
        if (local_elements(a.layout) != local_elements(b.layout) || a.layout.parts.size() != b.layout.parts.size()) continue;
        const std::string both = "`" + a.layout.parts[0].of + "` and `" + b.layout.parts[0].of + "`";
        Repair r = changed_layout(session, a, b.layout, "is where another one is", "exchange members " + both + " of `" + a.name + "`");
        r.change = [first = a.set, second = b.set, x = a.layout, y = b.layout](ir::Document& document) {
          first(document, y);
          second(document, x);
        };
        repairs.push_back(std::move(r));
      }
      for (auto& [fix, layout] : variants(a.layout, session.mesh()))
        repairs.push_back(changed_layout(session, a, layout, kUnlikeUse, "in the declaration of `" + a.name + "`, " + fix));
    }
  }
  return repairs;
}

std::vector<Repair> declaration_changes(Session& session, Blame& blame) {
  const ir::StageProgram& stage = session.document().plan.stages.front();
  std::set<std::string> declared;
  for (const Claim& claim : session.claims())
    if (!claim.proved && claim.kind == Claim::Kind::state) declared.insert(claim.name);
  if (declared.size() > kMaxClaims) declared.clear();
  std::set<ir::ValueId> read;
  if (const auto suspect = blame.first_suspect()) read = moved_from(session, blame, {suspect->value});
  std::vector<Repair> repairs;
  for (const Entry& e : entries_of(session.document())) {
    if (e.kind == Entry::Kind::member) continue;
    const bool fails = e.kind == Entry::Kind::state && declared.count(stage.state[e.index].name) != 0;
    if (!fails && read.count(e.value) == 0) continue;
    for (auto& [fix, layout] : variants(e.layout, session.mesh()))
      repairs.push_back(changed_layout(session, e, layout, kUnlikeUse, "in the declaration of `" + e.name + "`, " + fix));
  }
  return repairs;
}

}  // namespace shardproof::verifier
