#include "ir/read_json_placement.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "ir/validate.h"

namespace shardproof::ir {

namespace {

constexpr std::uint32_t max_axes = 64;  // of one mesh; axes are looked up one by one

std::optional<std::int64_t> parse_int(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// Product of the digit sizes; nullopt on a size below 1 or an overflow.
std::optional<std::int64_t> product(const std::vector<Digit>& digits) {
  std::int64_t total = 1;
  for (const Digit& digit : digits) {
    if (digit.size < 1 || __builtin_mul_overflow(total, digit.size, &total)) return std::nullopt;
  }
  return total;
}

std::int64_t largest_shard(const std::vector<std::int64_t>& offsets) {
  std::int64_t largest = 0;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    std::int64_t size = 0;
    if (!__builtin_sub_overflow(offsets[i], offsets[i - 1], &size)) largest = std::max(largest, size);
  }
  return largest;
}

std::vector<std::string_view> axis_names(const Mesh& mesh) {
  std::vector<std::string_view> names;
  for (const MeshAxis& axis : mesh.axes) names.push_back(axis.name);
  return names;
}

}  // namespace

// ---------------------------------------------------------------- meshes

Mesh read_mesh_axes(Findings& findings, JsonRef axes) {
  Mesh mesh;
  mesh.span = {axes->span.begin, axes->span.begin + 1};
  if (!is_array(findings, axes, "field `axes`")) return mesh;
  if (axes->count > max_axes) {
    findings.error("SP0009", "limit-exceeded", "the mesh has too many axes", mesh.span,
                   "at most " + std::to_string(max_axes), std::to_string(axes->count));
    return mesh;
  }
  for (JsonRef pair : axes) {
    if (findings.exhausted()) break;
    if (!is_array(findings, pair, "mesh axis")) continue;
    if (pair->count != 2) {
      findings.error("SP0004", "wrong-kind", "mesh axis is not a pair", pair->span, "[\"name\", size]");
      continue;
    }
    MeshAxis axis;
    auto item = pair.begin();
    const std::optional<std::string> name = read_identifier(findings, *item, "axis name");
    ++item;
    const std::optional<std::int64_t> size = read_integer(findings, *item, "axis size");
    if (!name || !size) continue;
    axis.name = *name;
    axis.size = *size;
    axis.span = pair->span;
    if (axis.size < 1) {  // said here: nothing that has groups or shards could be read any more
      findings.error("SP0105", "malformed-mesh", "mesh axis " + quoted(axis.name) + " has no ranks", axis.span, "a size of 1 or more", std::to_string(axis.size));
      axis.size = 1;
    }
    mesh.axes.push_back(std::move(axis));
  }
  return mesh;
}

Mesh read_mesh(Findings& findings, JsonRef object) {
  static constexpr std::array<std::string_view, 3> known = {"name", "axes", "devices"};
  const Fields fields(findings, object, "mesh", known);
  Mesh mesh;
  if (const auto axes = fields.required("axes")) mesh = read_mesh_axes(findings, *axes);
  mesh.span = fields.head();
  if (const auto name = fields.required("name")) {
    mesh.name = read_name(findings, *name, "mesh name").value_or(std::string{});
    mesh.span = name->node().span;
  }
  if (const auto devices = fields.find("devices")) {
    mesh.devices =
        read_list<std::int64_t>(findings, *devices, "field `devices`", false, read_integer).value_or(mesh.devices);
  }
  return mesh;
}

// ---------------------------------------------------------------- placements

bool PlacementReader::known_axis(Span span, std::string_view axis, const Mesh& mesh) {
  if (mesh.find_axis(std::string(axis))) return true;
  const std::vector<std::string_view> names = axis_names(mesh);
  const std::string_view near = nearest(axis, names);
  std::string fix = near.empty() ? std::string{} : "write " + quoted(near);
  if (near.empty()) {
    for (const Mesh& other : plan_.meshes) {
      if (other.find_axis(std::string(axis))) fix = "add \"mesh\": \"" + other.name + "\" to the placement";
    }
  }
  findings_.error("SP0101", "unknown-mesh-axis", "mesh " + quoted(mesh.name) + " has no axis " + quoted(axis), span, {},
                  quoted(axis), std::move(fix));
  return false;
}

// "tp", or a sub-axis "tp:(2)4", or the size of a local digit.
std::optional<Digit> PlacementReader::read_digit(JsonRef value, const Mesh& mesh) {
  if (value->kind == JsonKind::number) {
    const std::optional<std::int64_t> size = read_integer(findings_, value, "digit");
    if (!size) return std::nullopt;
    if (*size < 1) {
      findings_.bad_value(value, "a digit has at least one value", "a size of 1 or more");
      return std::nullopt;
    }
    return Digit{{}, 1, *size};
  }
  if (value->kind != JsonKind::text) {
    findings_.wrong_kind(value, "digit", "an axis name, a sub-axis such as \"tp:(2)4\", or a local size");
    return std::nullopt;
  }
  const std::string_view text = value->text;
  const std::size_t colon = text.find(":(");
  Digit digit;
  digit.axis = text.substr(0, colon);
  if (!known_axis(value->span, digit.axis, mesh)) return std::nullopt;
  digit.size = mesh.axes[*mesh.find_axis(digit.axis)].size;
  if (colon != std::string_view::npos) {
    const std::size_t close = text.find(')', colon);
    const auto pre =
        close == std::string_view::npos ? std::nullopt : parse_int(text.substr(colon + 2, close - colon - 2));
    const auto size = close == std::string_view::npos ? std::nullopt : parse_int(text.substr(close + 1));
    if (!pre || !size || *pre < 1 || *size < 1) {
      findings_.bad_value(value, "malformed sub-axis", "axis:(pre)size, such as tp:(2)4");
      return std::nullopt;
    }
    digit.pre = *pre;
    digit.size = *size;
  }
  return digit;
}

// A trailing local digit may be left out when the list is empty or ends with an axis.
void PlacementReader::complete(DimLayout& layout, std::int64_t extent, std::size_t position, JsonRef place) {
  if (!layout.digits.empty() && layout.digits.back().is_local()) return;
  const std::optional<std::int64_t> have = product(layout.digits);
  if (!have) return;
  if (!layout.offsets.empty()) {
    layout.digits.push_back({{}, 1, std::max<std::int64_t>(1, largest_shard(layout.offsets))});
    return;
  }
  const std::int64_t total = layout.padded_extent > 0 ? layout.padded_extent : extent;
  if (total < 1) return;
  if (total % *have != 0) {
    const std::int64_t padded =
        total > (std::int64_t{1} << 40) || *have > (std::int64_t{1} << 40) ? 0 : (total / *have + 1) * *have;
    findings_.error(
        "SP0102", "extent-mismatch",
        "dimension " + std::to_string(position) + " of extent " + std::to_string(total) +
            " is not divisible by its mesh axes",
        place->span, "a multiple of " + std::to_string(*have), std::to_string(total),
        padded > 0 ? "pad it: {\"digits\": [...], \"pad\": " + std::to_string(padded) + "}" : std::string{});
    return;
  }
  if (total / *have > 1 || layout.digits.empty()) layout.digits.push_back({{}, 1, total / *have});
}

DimLayout PlacementReader::read_dim(JsonRef value, std::int64_t extent, std::size_t position, const Mesh& mesh,
                                    bool explicit_digits) {
  static constexpr std::array<std::string_view, 4> known = {"digits", "permute", "pad", "offsets"};
  DimLayout layout;
  std::optional<JsonRef> digits;
  if (value->kind == JsonKind::object) {
    const Fields fields(findings_, value, "dimension layout", known);
    digits = fields.required("digits");
    if (const auto permute = fields.find("permute")) {
      const std::optional<std::string> name = read_text(findings_, *permute, "field `permute`");
      if (name == "zigzag") {
        layout.permutation = Permutation::zigzag;
      } else if (name) {
        findings_.bad_value(*permute, "unknown permutation", "zigzag");
      }
    }
    if (const auto pad = fields.find("pad")) {
      layout.padded_extent = read_integer(findings_, *pad, "field `pad`").value_or(0);
      if (layout.padded_extent < 1)
        findings_.bad_value(*pad, "the padded extent is not positive", "the extent with padding");
    }
    if (const auto offsets = fields.find("offsets")) {
      layout.offsets =
          read_list<std::int64_t>(findings_, *offsets, "field `offsets`", false, read_integer).value_or(layout.offsets);
      if (layout.offsets.empty())
        findings_.bad_value(*offsets, "a ragged dimension needs offsets", "one more than the axis size");
    }
  } else if (is_array(findings_, value, "dimension layout")) {
    digits = value;
  }
  if (!digits || !is_array(findings_, *digits, "field `digits`")) return layout;
  bool good = true;
  for (JsonRef item : *digits) {
    const std::optional<Digit> digit = read_digit(item, mesh);
    good = good && digit.has_value();
    if (digit) layout.digits.push_back(*digit);
    if (findings_.exhausted()) return layout;
  }
  // An axis without ranks is reported where the mesh is.
  if (std::any_of(layout.digits.begin(), layout.digits.end(), [](const Digit& d) { return d.size < 1; })) return layout;
  if (good && !product(layout.digits)) {
    findings_.error("SP0118", "extent-limit", "the digits multiply to more than 64 bits hold", digits->node().span);
    return layout;
  }
  if (good && !explicit_digits && extent > 0) complete(layout, extent, position, *digits);
  return layout;
}

std::vector<DimLayout> PlacementReader::read_dims(JsonRef array, const Shape* extents, const Mesh& mesh,
                                                  bool explicit_digits) {
  std::vector<DimLayout> dims;
  if (!is_array(findings_, array, "field `dims`")) return dims;
  if (extents != nullptr && extents->size() != array->count) {
    findings_.error("SP0102", "extent-mismatch", "the placement has another number of dimensions than the tensor",
                    array->span, std::to_string(extents->size()), std::to_string(array->count));
    extents = nullptr;
  }
  for (JsonRef value : array) {
    if (findings_.exhausted()) break;
    const std::size_t position = dims.size();
    dims.push_back(read_dim(value, extents == nullptr ? 0 : (*extents)[position], position, mesh, explicit_digits));
  }
  return dims;
}

std::vector<OwnedAxis> PlacementReader::read_owned(JsonRef object, const Mesh* mesh, std::string_view what) {
  std::vector<OwnedAxis> owned;
  if (object->kind != JsonKind::object) {
    findings_.wrong_kind(object, what, "an object such as {\"pp\": [0]}");
    return owned;
  }
  for (JsonRef field : object) {
    if (findings_.exhausted()) break;
    if (mesh != nullptr && !known_axis(field->key_span, field->key, *mesh)) continue;
    auto coordinates = read_list<std::int64_t>(findings_, field, what, false, read_integer);
    if (coordinates) owned.push_back({std::string(field->key), std::move(*coordinates)});
  }
  return owned;
}

Placement PlacementReader::read_placement(const Fields& fields, const Shape* extents, bool explicit_digits) {
  static const Mesh no_mesh;
  Placement placement;
  placement.span = fields.head();
  const Mesh* mesh = plan_.meshes.empty() ? &no_mesh : &plan_.meshes.front();
  if (const auto name = fields.find("mesh")) {
    placement.mesh = read_name(findings_, *name, "field `mesh`").value_or(std::string{});
    const Mesh* named = plan_.find_mesh(placement.mesh);
    if (named != nullptr) {
      mesh = named;
    } else if (!placement.mesh.empty()) {
      std::vector<std::string_view> names;
      for (const Mesh& each : plan_.meshes) names.push_back(each.name);
      findings_.unknown_name(name->node().span, "mesh", placement.mesh, names);
    }
  }
  if (const auto dims = fields.find("dims")) {
    placement.span = dims->node().span;
    placement.dims = read_dims(*dims, extents, *mesh, explicit_digits);
  } else if (extents != nullptr && !explicit_digits) {
    for (const std::int64_t extent : *extents) placement.dims.push_back({{{{}, 1, extent}}, Permutation::none, 0, {}});
  } else if (extents != nullptr) {
    fields.required("dims");
  }
  if (const auto partial = fields.find("partial")) {
    if (partial->node().kind != JsonKind::object) {
      findings_.wrong_kind(*partial, "field `partial`", "an object such as {\"dp\": \"sum\"}");
    } else {
      for (JsonRef field : *partial) {
        if (findings_.exhausted()) break;
        if (!known_axis(field->key_span, field->key, *mesh)) continue;
        const std::optional<std::string> name = read_text(findings_, field, "reduction");
        const std::optional<ReduceKind> reduce = name ? parse_reduce(*name) : std::nullopt;
        if (name && !reduce) findings_.bad_value(field, "unknown reduction", "sum, max, min, avg or prod");
        if (reduce) placement.partial.push_back({std::string(field->key), *reduce});
      }
    }
  }
  if (const auto owned = fields.find("owned")) placement.owned = read_owned(*owned, mesh, "field `owned`");
  if (const auto pad = fields.find("pad_value")) {
    const std::optional<std::string> name = read_text(findings_, *pad, "field `pad_value`");
    if (name == "zero") {
      placement.pad = PadValue::zero;
    } else if (name && name != "any") {
      findings_.bad_value(*pad, "unknown padding value", "zero or any");
    }
  }
  return placement;
}

// ---------------------------------------------------------------- bindings and buffers

std::vector<FusedPart> PlacementReader::read_fused(JsonRef array) {
  static constexpr std::array<std::string_view, 6> known = {"of", "mesh", "dims", "partial", "owned", "pad_value"};
  std::vector<FusedPart> parts;
  if (!is_array(findings_, array, "field `fused`")) return parts;
  if (array->count == 0) findings_.bad_value(array, "no parts to fuse", "one or more parts");
  for (JsonRef object : array) {
    if (findings_.exhausted()) break;
    const Fields fields(findings_, object, "fused part", known);
    FusedPart part;
    const TensorType* type = nullptr;
    if (const auto of = fields.required("of")) {
      part.of = read_name(findings_, *of, "field `of`").value_or(std::string{});
      if (!part.of.empty()) type = target(*of, BindingKind::state, part.of);
    }
    if (fields.is_object()) part.placement = read_placement(fields, type == nullptr ? nullptr : &type->shape, true);
    parts.push_back(std::move(part));
  }
  return parts;
}

const TensorType* PlacementReader::target(JsonRef place, BindingKind kind, std::string_view name) {
  ValueId id;
  std::vector<std::string_view> known;
  std::string_view what;
  switch (kind) {
    case BindingKind::input:
      id = reference_.input(name);
      what = "reference input";
      if (!id.valid()) known = reference_.input_names();
      break;
    case BindingKind::state:
      id = reference_.state(name);
      what = "reference state";
      if (!id.valid()) known = reference_.state_names();
      break;
    case BindingKind::output:
      id = reference_.output(name);
      what = "reference output";
      if (!id.valid()) known = reference_.output_names();
      break;
  }
  if (id.valid()) return &reference_.type(id);
  const bool scalar = place->kind != JsonKind::object && place->kind != JsonKind::array;
  const Span span = scalar ? place->span : Span{place->span.begin, place->span.begin + 1};
  const std::string_view near = nearest(name, known);
  findings_.error("SP0111", "unknown-reference-tensor", "there is no " + std::string(what) + " " + quoted(name), span,
                  {}, quoted(name), near.empty() ? std::string{} : "write " + quoted(near));
  return nullptr;
}

Binding PlacementReader::read_binding(const Fields& fields, BindingKind kind, const std::string& name,
                                      std::optional<TensorType>* local) {
  Binding binding;
  if (!fields.is_object()) return binding;
  const auto of = fields.find("of");
  const auto fused = fields.find("fused");
  const auto buffer = fields.find("buffer");
  const auto role = fields.find("role");
  if ((of ? 1 : 0) + (fused ? 1 : 0) + (buffer ? 1 : 0) > 1) {
    findings_.error("SP0005", "bad-value", quoted(name) + " is bound more than once", fields.head(),
                    "one of `of`, `fused` and `buffer`");
    return binding;
  }
  if (role) binding.role = read_name(findings_, *role, "field `role`").value_or(std::string{});
  const auto axis = fields.find("fuse_axis");
  if (axis && !fused) findings_.error("SP0005", "bad-value", "`fuse_axis` needs `fused`", axis->node().span);
  const std::size_t errors = findings_.count();
  if (buffer) {
    binding.buffer = read_name(findings_, *buffer, "field `buffer`").value_or(std::string{});
    if (!role) fields.required("role");
    const auto entry = buffers_.find(binding.buffer);
    const FlatBuffer* found = entry == buffers_.end() ? nullptr : entry->second;
    if (found == nullptr && !binding.buffer.empty()) {
      std::vector<std::string_view> names;
      for (const FlatBuffer& each : plan_.buffers) names.push_back(each.name);
      findings_.unknown_name(buffer->node().span, "buffer", binding.buffer, names);
    }
    const Shape extents = {found == nullptr ? 0 : found->size};
    binding.placement = read_placement(fields, found == nullptr ? nullptr : &extents, false);
    return binding;
  }
  if (fused) {
    binding.fused = read_fused(*fused);
    if (axis) binding.fuse_axis = read_integer(findings_, *axis, "field `fuse_axis`").value_or(0);
    if (const auto dims = fields.find("dims")) {
      findings_.error("SP0005", "bad-value", "a fused binding has no `dims` of its own", dims->node().span,
                      "`dims` in each part");
      return binding;
    }
    binding.placement = read_placement(fields, nullptr, false);
    return binding;
  }
  if (role)
    findings_.error("SP0005", "bad-value", "`role` needs `fused` or `buffer`", role->node().span,
                    "`of` the state itself");
  binding.of = of ? read_name(findings_, *of, "field `of`").value_or(std::string{}) : name;
  if (binding.of.empty()) return binding;
  const JsonRef place = of ? *of : fields.find("name").value_or(fields.object());
  const TensorType* type = target(place, kind, binding.of);
  binding.placement = read_placement(fields, type == nullptr ? nullptr : &type->shape, false);
  if (type != nullptr && findings_.count() == errors && local != nullptr) {
    *local = TensorType{type->dtype, local_shape(binding.placement)};
    if (const std::string problem = shape_problem((*local)->shape); !problem.empty()) {
      findings_.error("SP0118", "extent-limit", "local tensor of " + quoted(name) + ": " + problem, place->span,
                      "extents from 1 to 2^40, at most 2^62 elements", to_string(**local));
      local->reset();
    }
  }
  return binding;
}

void PlacementReader::index_buffers() {
  for (const FlatBuffer& buffer : plan_.buffers) buffers_.emplace(buffer.name, &buffer);
}

FlatBuffer PlacementReader::read_buffer(JsonRef object) {
  static constexpr std::array<std::string_view, 3> known = {"name", "size", "members"};
  static constexpr std::array<std::string_view, 9> member_known = {"param", "fused",   "fuse_axis", "offset",   "mesh",
                                                                   "dims",  "partial", "owned",     "pad_value"};
  const Fields fields(findings_, object, "buffer", known);
  FlatBuffer buffer;
  buffer.span = fields.head();
  if (const auto name = fields.required("name")) {
    buffer.name = read_name(findings_, *name, "buffer name").value_or(std::string{});
    buffer.span = name->node().span;
  }
  if (const auto size = fields.required("size"))
    buffer.size = read_integer(findings_, *size, "field `size`").value_or(0);
  const auto members = fields.required("members");
  if (!members || !is_array(findings_, *members, "field `members`")) return buffer;
  for (JsonRef item : *members) {
    if (findings_.exhausted()) break;
    const Fields entry(findings_, item, "buffer member", member_known);
    if (!entry.is_object()) continue;
    BufferMember member;
    member.span = item->span;
    if (const auto offset = entry.required("offset")) {
      member.offset = read_integer(findings_, *offset, "field `offset`").value_or(0);
    }
    const auto param = entry.find("param");
    const auto fused = entry.find("fused");
    if (param.has_value() == fused.has_value()) {
      findings_.error("SP0003", "missing-field", "a buffer member holds one tensor or fused ones", entry.head(),
                      "one of `param` and `fused`");
      continue;
    }
    if (fused) {
      member.fused = read_fused(*fused);
      if (const auto axis = entry.find("fuse_axis"))
        member.fuse_axis = read_integer(findings_, *axis, "field `fuse_axis`").value_or(0);
      member.placement = read_placement(entry, nullptr, false);
    } else {
      member.param = read_name(findings_, *param, "field `param`").value_or(std::string{});
      const TensorType* type = member.param.empty() ? nullptr : target(*param, BindingKind::state, member.param);
      member.placement = read_placement(entry, type == nullptr ? nullptr : &type->shape, false);
    }
    buffer.members.push_back(std::move(member));
  }
  return buffer;
}

}  // namespace shardproof::ir
