#include "tools/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <numeric>

namespace shardproof::tools {

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0u : 1u)});
      diagonal = above;
    }
  }
  return row.back();
}

std::string unexpected(const CLI::App& app, const std::string& argument) {
  if (argument.empty() || argument[0] != '-') return "unexpected argument '" + argument + "'";
  const std::string name = argument.substr(0, argument.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& long_name : option->get_lnames()) known.push_back("--" + long_name);
    for (const std::string& short_name : option->get_snames()) known.push_back("-" + short_name);
  }
  const std::string near = nearest(name, known);
  return "unknown option '" + name + "'" + (near.empty() ? "" : "; the nearest is '" + near + "'");
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  // A third of the letters may differ: "verfy" is verify, "frobnicate" is nothing.
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const bool is_prefix = word.size() >= 2 && candidate.starts_with(word);
    const std::size_t distance = is_prefix ? 1 : edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

bool parse_arguments(CLI::App& app, Arguments arguments) {
  // CLI11 takes a vector in reverse order.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  const std::string see_help = "; see `" + app.get_name() + " --help`";
  try {
    app.parse(std::move(reversed));
    return true;
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return false;
  } catch (const CLI::ExtrasError&) {
    throw UsageError(unexpected(app, app.remaining().front()) + see_help);
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string(error.what()) + see_help);
  }
}

}  // namespace shardproof::tools
