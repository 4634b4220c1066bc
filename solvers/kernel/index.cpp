// Canonical quasi-affine index terms.
//
// Normal form of c + sum k_i a_i: atoms distinct and sorted, and recombined: a modulus and the floor
// division of the same expression that fit together (k*(e mod c) + k*c*(e div c)) become k*e again, so that
// splitting an index into digits and putting it together is the identity. Every rewrite below is an identity
// of integers with floor division, given the stated bounds, which come from variable extents.
#include <algorithm>
#include <numeric>

#include "ir/check.h"
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

using ir::checked_add;
using ir::checked_mul;
using ir::floor_div;
using ir::floor_mod;

namespace {

std::int64_t coefficient_of(const std::vector<LinearTerm>& terms, AtomId atom) {
  for (const auto& [a, k] : terms)
    if (a == atom) return k;
  return 0;
}

// Every number of an interned index term is below 2^62, so that negations and sums with one more such number,
// of which there are many here and in guards, cannot wrap.
std::int64_t within_limit(std::int64_t x) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 62;
  if (x >= kLimit || x <= -kLimit) throw std::overflow_error("index term exceeds 62 bits");
  return x;
}

void clear_coefficient(std::vector<LinearTerm>& terms, AtomId atom) {
  for (auto& [a, k] : terms)
    if (a == atom) k = 0;
}

bool all_negative(const std::vector<LinearTerm>& terms) {
  return std::all_of(terms.begin(), terms.end(), [](const LinearTerm& t) { return t.second < 0; });
}

void sort_and_combine(std::vector<LinearTerm>& terms) {
  std::sort(terms.begin(), terms.end());
  std::size_t out = 0;
  for (std::size_t i = 0; i < terms.size();) {
    LinearTerm sum = terms[i++];
    while (i < terms.size() && terms[i].first == sum.first) sum.second = checked_add(sum.second, terms[i++].second);
    if (sum.second != 0) terms[out++] = sum;
  }
  terms.resize(out);
}

}  // namespace

AtomId TermPool::intern_atom(IndexAtom atom) {
  std::uint64_t hash = static_cast<std::uint64_t>(atom.kind);
  hash = combine(hash, hash_int(atom.var.value));
  hash = combine(hash, hash_int(atom.inner.value));
  hash = combine(hash, hash_int(atom.divisor));
  hash = combine(hash, hash_int(atom.tensor.value));
  for (IndexId i : atom.indices) hash = combine(hash, hash_int(i.value));
  const std::int32_t found = atom_table_.find(hash, [&](std::int32_t id) {
    const IndexAtom& other = atoms_[static_cast<std::size_t>(id)];
    return other.kind == atom.kind && other.var == atom.var && other.inner == atom.inner &&
           other.divisor == atom.divisor && other.tensor == atom.tensor && other.indices == atom.indices;
  });
  if (found >= 0) return AtomId{found};
  switch (atom.kind) {
    case AtomKind::variable: atom.free = var_set({atom.var}); break;
    case AtomKind::load:
      atom.free = VarSetId{0};
      for (IndexId i : atom.indices) atom.free = union_of(atom.free, index(i).free);
      break;
    default: atom.free = index(atom.inner).free;
  }
  const AtomId id{static_cast<std::int32_t>(atoms_.size())};
  atoms_.push_back(std::move(atom));
  atom_table_.insert(hash, id.value);
  tick();
  return id;
}

IndexId TermPool::intern_index(std::int64_t constant, std::vector<LinearTerm> terms) {
  std::uint64_t hash = hash_int(constant);
  for (const auto& [a, k] : terms) hash = combine(combine(hash, hash_int(a.value)), hash_int(k));
  const std::int32_t found = index_table_.find(hash, [&](std::int32_t id) {
    const IndexNode& other = indices_[static_cast<std::size_t>(id)];
    return other.constant == constant && other.terms == terms;
  });
  if (found >= 0) return IndexId{found};
  IndexNode node;
  node.constant = node.lo = node.hi = within_limit(constant);
  node.free = VarSetId{0};
  for (const auto& [a, k] : terms) {
    const IndexAtom& at = atom(a);
    within_limit(k);
    node.lo = within_limit(checked_add(node.lo, checked_mul(k, k > 0 ? at.lo : at.hi)));
    node.hi = within_limit(checked_add(node.hi, checked_mul(k, k > 0 ? at.hi : at.lo)));
    node.free = union_of(node.free, at.free);
  }
  node.terms = std::move(terms);
  const IndexId id{static_cast<std::int32_t>(indices_.size())};
  indices_.push_back(std::move(node));
  index_table_.insert(hash, id.value);
  tick();
  return id;
}

// One recombination step, or false. Each step removes a division or modulus atom.
bool TermPool::recombine(std::int64_t& constant, std::vector<LinearTerm>& terms) {
  const auto absorb = [&](IndexId e, std::int64_t factor) {
    const IndexNode& node = index(e);
    constant = checked_add(constant, checked_mul(factor, node.constant));
    for (const auto& [a, k] : node.terms) terms.emplace_back(a, checked_mul(k, factor));
  };
  // Does `terms` contain factor * (the terms of e)? The constant of e is settled by the caller.
  const auto contains_multiple = [&](IndexId e, std::int64_t factor, AtomId except) {
    const IndexNode& node = index(e);
    if (node.terms.empty()) return false;
    for (const auto& [a, k] : node.terms)
      if (a == except || coefficient_of(terms, a) != checked_mul(k, factor)) return false;
    return true;
  };
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const auto [a, k] = terms[i];
    const AtomKind kind = atom(a).kind;
    if (kind == AtomKind::modulo) {
      const IndexId e = atom(a).inner;
      const std::int64_t c = atom(a).divisor;
      const std::int64_t kc = checked_mul(k, c);
      const IndexId quotient = index_div(e, c);
      // k*(e mod c) + k*c*(e div c) = k*e
      if (contains_multiple(quotient, kc, a)) {
        clear_coefficient(terms, a);
        for (const auto& [q, unused] : index(quotient).terms) clear_coefficient(terms, q);
        constant = checked_add(constant, -checked_mul(kc, index(quotient).constant));
        absorb(e, k);
        return true;
      }
      // k*(e mod c) + k*c*((e div c + x) mod m) = k*((e + c*x) mod c*m), for any x; done when what is under the second
      // modulus contains e div c.
      for (const auto& [b, kb] : terms) {
        if (kb != kc || atom(b).kind != AtomKind::modulo) continue;
        const std::int64_t m = atom(b).divisor;
        const IndexId under = atom(b).inner;
        bool contains = false, differs = false;
        for (const auto& [q, kq] : index(quotient).terms) {
          if (kq % m == 0) continue;
          contains = true;
          differs = differs || ir::floor_mod(coefficient_of(index(under).terms, q), m) != ir::floor_mod(kq, m);
        }
        if (!contains || differs) continue;
        const IndexId x = index_sub(under, quotient);
        const AtomId other = b;
        clear_coefficient(terms, a);
        clear_coefficient(terms, other);
        absorb(index_mod(index_linear(e, 1, x, c), checked_mul(c, m)), k);
        return true;
      }
    } else if (kind == AtomKind::floor_div && k % atom(a).divisor == 0) {
      // f*e - f*c*(e div c) = f*(e mod c)
      const IndexId e = atom(a).inner;
      const std::int64_t c = atom(a).divisor;
      const std::int64_t f = -(k / c);
      if (contains_multiple(e, f, a)) {
        clear_coefficient(terms, a);
        for (const auto& [q, unused] : index(e).terms) clear_coefficient(terms, q);
        constant = checked_add(constant, -checked_mul(f, index(e).constant));
        absorb(index_mod(e, c), f);
        return true;
      }
    }
    if (kind == AtomKind::floor_div) {
      // k*((m*(e mod c) + y) div d) + k*q*(e div c) with q*d = m*c is k*((m*e + y) div d): a multiple of d enters a division.
      const IndexId inner = atom(a).inner;
      const std::int64_t d = atom(a).divisor;
      for (const auto& [b, m] : index(inner).terms) {
        if (atom(b).kind != AtomKind::modulo || checked_mul(m, atom(b).divisor) % d != 0) continue;
        const IndexId e = atom(b).inner;
        const std::int64_t kq = checked_mul(k, m * atom(b).divisor / d);
        const IndexId quotient = index_div(e, atom(b).divisor);
        if (!contains_multiple(quotient, kq, a)) continue;
        const IndexId y = index_linear(inner, 1, intern_index(0, {{b, 1}}), -m);
        clear_coefficient(terms, a);
        for (const auto& [part, unused] : index(quotient).terms) clear_coefficient(terms, part);
        constant = checked_add(constant, -checked_mul(kq, index(quotient).constant));
        absorb(index_div(index_linear(y, 1, e, m), d), k);
        return true;
      }
    }
  }
  return false;
}

IndexId TermPool::index_normal(std::int64_t constant, std::vector<LinearTerm> terms) {
  sort_and_combine(terms);
  while (recombine(constant, terms)) sort_and_combine(terms);
  return intern_index(constant, std::move(terms));
}

IndexId TermPool::index_constant(std::int64_t value) { return intern_index(value, {}); }

AtomId TermPool::atom_of_var(VarId var_id) {
  IndexAtom a;
  a.kind = AtomKind::variable;
  a.var = var_id;
  a.hi = var(var_id).extent - 1;
  return intern_atom(std::move(a));
}

IndexId TermPool::index_var(VarId var_id) {
  if (var(var_id).extent == 1) return index_constant(0);
  return intern_index(0, {{atom_of_var(var_id), 1}});
}

IndexId TermPool::index_linear(IndexId a, std::int64_t ka, IndexId b, std::int64_t kb, std::int64_t constant) {
  const IndexNode& x = index(a);
  const IndexNode& y = index(b);
  std::vector<LinearTerm> terms;
  terms.reserve(x.terms.size() + y.terms.size());
  std::int64_t c = checked_add(constant, checked_add(checked_mul(x.constant, ka), checked_mul(y.constant, kb)));
  if (ka != 0)
    for (const auto& [t, k] : x.terms) terms.emplace_back(t, checked_mul(k, ka));
  if (kb != 0)
    for (const auto& [t, k] : y.terms) terms.emplace_back(t, checked_mul(k, kb));
  return index_normal(c, std::move(terms));
}

// Writes e = S*high + low with S > 1 dividing `divisor` and 0 <= low < S by the variables' bounds; returns S,
// the largest that works, or 0.
std::int64_t TermPool::split_digit(IndexId e, std::int64_t divisor, IndexId& high, IndexId& low) {
  const IndexNode node = index(e);
  std::vector<std::int64_t> candidates;
  for (const auto& [a, k] : node.terms) {
    const std::int64_t g = std::gcd(k, divisor);
    if (g > 1) candidates.push_back(g);
  }
  std::sort(candidates.rbegin(), candidates.rend());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  for (std::int64_t s : candidates) {
    std::vector<LinearTerm> high_terms, low_terms;
    for (const auto& [a, k] : node.terms) {
      if (k % s == 0) high_terms.emplace_back(a, k / s);
      else low_terms.emplace_back(a, k);
    }
    const IndexId low_part = index_normal(floor_mod(node.constant, s), std::move(low_terms));
    if (index(low_part).lo < 0 || index(low_part).hi >= s) continue;
    high = index_normal(floor_div(node.constant, s), std::move(high_terms));
    low = low_part;
    return s;
  }
  return 0;
}

IndexId TermPool::index_div(IndexId e, std::int64_t c) {
  SHARDPROOF_CHECK(c >= 1);
  if (c == 1) return e;
  // Multiples of c leave the division: (c*q + r) div c = q + r div c.
  const IndexNode node = index(e);
  std::vector<LinearTerm> whole, rest;
  for (const auto& [a, k] : node.terms) {
    if (k % c == 0) whole.emplace_back(a, k / c);
    else rest.emplace_back(a, k);
  }
  const IndexId q = index_normal(floor_div(node.constant, c), std::move(whole));
  const IndexId r = index_normal(floor_mod(node.constant, c), std::move(rest));
  const std::int64_t first = floor_div(index(r).lo, c);
  if (first == floor_div(index(r).hi, c)) return index_scale(q, 1, first);
  // r = S*r1 + r0, S | c, 0 <= r0 < S:  r div c = r1 div (c/S).
  IndexId high, low;
  if (const std::int64_t s = split_digit(r, c, high, low)) return index_add(q, index_div(high, c / s));
  const IndexNode rn = index(r);
  // One unit-coefficient division inside: (X + y div a) div c = (a*X + y) div (a*c).
  AtomId inner_division;
  int divisions = 0;
  for (const auto& [a, k] : rn.terms) {
    if (k == 1 && atom(a).kind == AtomKind::floor_div) {
      ++divisions;
      inner_division = a;
    }
  }
  if (divisions == 1 && atom(inner_division).divisor < (std::int64_t{1} << 40) / c) {
    const std::int64_t a = atom(inner_division).divisor;
    std::vector<LinearTerm> others = rn.terms;
    clear_coefficient(others, inner_division);
    const IndexId x = index_normal(rn.constant, std::move(others));
    return index_add(q, index_div(index_linear(x, a, atom(inner_division).inner, 1), a * c));
  }
  // (x mod m) div c = (x div c) mod (m/c) when c | m.
  if (rn.constant == 0 && rn.terms.size() == 1 && rn.terms[0].second == 1) {
    const IndexAtom at = atom(rn.terms[0].first);
    if (at.kind == AtomKind::modulo && at.divisor % c == 0) return index_add(q, index_mod(index_div(at.inner, c), at.divisor / c));
  }
  // Nothing but negative terms: r div c = -((-r + c-1) div c).
  if (all_negative(rn.terms)) return index_linear(q, 1, index_div(index_scale(r, -1, c - 1), c), -1);
  IndexAtom division;
  division.kind = AtomKind::floor_div;
  division.inner = r;
  division.divisor = c;
  division.lo = first;
  division.hi = floor_div(index(r).hi, c);
  return index_add(q, intern_index(0, {{intern_atom(std::move(division)), 1}}));
}

IndexId TermPool::index_mod(IndexId e, std::int64_t c) {
  SHARDPROOF_CHECK(c >= 1);
  if (c == 1) return index_constant(0);
  // Multiples of c vanish, and (x mod m) = x modulo c when c | m.
  const IndexNode node = index(e);
  std::int64_t constant = node.constant;
  std::vector<LinearTerm> rest;
  bool opened = false;
  for (const auto& [a, k] : node.terms) {
    if (k % c == 0) continue;
    const IndexAtom& at = atom(a);
    if (at.kind == AtomKind::modulo && at.divisor % c == 0) {
      const IndexNode& inner = index(at.inner);
      for (const auto& [b, kb] : inner.terms) rest.emplace_back(b, checked_mul(kb, k));
      constant = checked_add(constant, checked_mul(inner.constant, k));
      opened = true;
    } else {
      rest.emplace_back(a, k);
    }
  }
  const IndexId r = index_normal(floor_mod(constant, c), std::move(rest));
  if (opened) return index_mod(r, c);
  const std::int64_t cell = floor_div(index(r).lo, c);
  if (cell == floor_div(index(r).hi, c)) return index_scale(r, 1, checked_mul(-cell, c));
  // r = S*r1 + r0, S | c, 0 <= r0 < S:  r mod c = S*(r1 mod (c/S)) + r0.
  IndexId high, low;
  if (const std::int64_t s = split_digit(r, c, high, low)) return index_linear(index_mod(high, c / s), s, low, 1);
  // Nothing but negative terms: r mod c = c-1 - ((-r + c-1) mod c).
  if (all_negative(index(r).terms)) return index_scale(index_mod(index_scale(r, -1, c - 1), c), -1, c - 1);
  IndexAtom modulus;
  modulus.kind = AtomKind::modulo;
  modulus.inner = r;
  modulus.divisor = c;
  modulus.hi = c - 1;
  return intern_index(0, {{intern_atom(std::move(modulus)), 1}});
}

IndexId TermPool::index_load(TensorId tensor_id, std::vector<IndexId> indices) {
  const Tensor& t = tensor(tensor_id);
  SHARDPROOF_CHECK(t.integer && t.below >= 1 && indices.size() == t.shape.size());
  if (t.below == 1) return index_constant(0);
  IndexAtom load;
  load.kind = AtomKind::load;
  load.tensor = tensor_id;
  load.indices = std::move(indices);
  load.hi = t.below - 1;
  return intern_index(0, {{intern_atom(std::move(load)), 1}});
}

IndexId TermPool::substitute_index(IndexId e, Substitution& substitution) {
  const IndexNode node = index(e);
  bool touched = false;
  for (const auto& [v, unused] : substitution.entries_) {
    if (contains(node.free, v)) {
      touched = true;
      break;
    }
  }
  if (!touched) return e;
  if (auto it = substitution.index_memo_.find(e.value); it != substitution.index_memo_.end()) return it->second;
  std::int64_t constant = node.constant;
  std::vector<LinearTerm> terms;
  const auto absorb = [&](IndexId part, std::int64_t k) {
    const IndexNode& p = index(part);
    constant = checked_add(constant, checked_mul(p.constant, k));
    for (const auto& [a, ka] : p.terms) terms.emplace_back(a, checked_mul(ka, k));
  };
  for (const auto& [a, k] : node.terms) {
    const IndexAtom at = atom(a);
    switch (at.kind) {
      case AtomKind::variable: {
        IndexId value;
        for (const auto& [v, replacement] : substitution.entries_)
          if (v == at.var) value = replacement;
        if (value.valid()) absorb(value, k);
        else terms.emplace_back(a, k);
        break;
      }
      case AtomKind::floor_div: absorb(index_div(substitute_index(at.inner, substitution), at.divisor), k); break;
      case AtomKind::modulo: absorb(index_mod(substitute_index(at.inner, substitution), at.divisor), k); break;
      case AtomKind::load: {
        std::vector<IndexId> indices;
        for (IndexId i : at.indices) indices.push_back(substitute_index(i, substitution));
        absorb(index_load(at.tensor, std::move(indices)), k);
        break;
      }
    }
  }
  const IndexId result = index_normal(constant, std::move(terms));
  substitution.index_memo_.emplace(e.value, result);
  return result;
}

}  // namespace shardproof::solvers
