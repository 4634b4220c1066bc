#include "tools/command_line.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "ir/nearest.h"

namespace shardproof::tools {

namespace {

std::string unexpected(const CLI::App& app, const std::string& argument) {
  if (argument.empty() || argument[0] != '-') return "unexpected argument '" + argument + "'";
  const std::string name = argument.substr(0, argument.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& long_name : option->get_lnames()) known.push_back("--" + long_name);
    for (const std::string& short_name : option->get_snames()) known.push_back("-" + short_name);
  }
  return "unknown option '" + name + "'" + nearest_hint(name, known);
}

}  // namespace

std::string nearest_hint(std::string_view word, const std::vector<std::string>& candidates) {
  const std::vector<std::string_view> views(candidates.begin(), candidates.end());
  const std::string_view near = ir::nearest(word, views);
  return near.empty() ? std::string() : "; the nearest is '" + std::string(near) + "'";
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
