#include "app/cli/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/thread_pool.h"

namespace fewbit::cli {
namespace {

template <class T>
std::optional<T> parse(std::string_view s) {
  if (s.starts_with('+')) s.remove_prefix(1);
  T v{};
  auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (ec != std::errc() || end != s.data() + s.size()) return {};
  return v;
}

bool is_flag(const CLI::Option& o) { return o.get_items_expected_max() == 0; }

// Options that may be empty: texts, and lists of ids.
bool may_be_empty(const CLI::Option& o) {
  for (const char* name : {"--system", "TEXT", "IDS", "--tile"})
    if (o.check_name(name)) return true;
  return false;
}

const CLI::Option* find_option(const CLI::App& command, std::string_view name) {
  const std::string plain(name.substr(std::min(name.find_first_not_of('-'), name.size())));
  for (const CLI::Option* o : command.get_options()) {
    const auto &l = o->get_lnames(), &s = o->get_snames();
    if (std::find(l.begin(), l.end(), plain) != l.end() || std::find(s.begin(), s.end(), plain) != s.end()) return o;
  }
  return nullptr;
}

// How the option stands among the arguments: "-t", "--threads", "-ub".
std::optional<std::string> typed_form(const CLI::Option& o, const std::vector<std::string>& args) {
  for (const std::string& a : args) {
    for (const std::string& l : o.get_lnames())
      for (const std::string& form : {"--" + l, "-" + l})
        if ((a == form || a.starts_with(form + "=")) && (form[1] == '-' || l.size() > 1)) return form;
    for (const std::string& s : o.get_snames())
      if (a.starts_with("-" + s)) return "-" + s;
  }
  return {};
}

const CLI::App& used_command(const CLI::App& app) {
  const auto used = app.get_subcommands();
  return used.empty() ? app : *used[0];
}

}  // namespace

CLI::Validator whole(i64 lo, i64 hi) {
  auto check = [=](std::string& s) {
    auto v = parse<i64>(s);
    if (v && *v >= lo && *v <= hi) return std::string();
    return fmt::format("'{}' is not a whole number from {} to {}", s, lo, hi);
  };
  return CLI::Validator(check, fmt::format("{} .. {}", lo, hi), "whole");
}

CLI::Validator real(f64 lo, f64 hi) {
  auto check = [=](std::string& s) {
    auto v = parse<f64>(s);
    if (v && *v >= lo && *v <= hi) return std::string();  // false for nan
    return fmt::format("'{}' is not a number from {} to {}", s, lo, hi);
  };
  return CLI::Validator(check, fmt::format("{} .. {}", lo, hi), "real");
}

int most_threads() { return std::max(16, 4 * usable_cores()); }

void check_all_values(CLI::App& app) {
  for (CLI::Option* o : app.get_options()) {
    if (is_flag(*o)) {
      if (o != app.get_help_ptr() && o != app.get_version_ptr()) o->disable_flag_override();
      continue;
    }
    if (!may_be_empty(*o)) {
      o->check(CLI::Validator([](std::string& s) { return s.empty() ? std::string("must not be empty") : std::string(); }, "", "text"));
    }
    if (o->get_type_name().starts_with("FLOAT")) {
      o->check(CLI::Validator(
          [](std::string& s) {
            auto v = parse<f64>(s);
            return v && std::isfinite(*v) ? std::string() : fmt::format("'{}' is not a finite number", s);
          },
          "", "finite"));
    }
    if (o->check_name("--threads")) {
      o->check(CLI::Validator(
          [](std::string& s) {
            for (size_t at = 0; at < s.size();) {  // bench takes a list
              const size_t end = std::min(s.find(',', at), s.size());
              const auto n = parse<i64>(s.substr(at, end - at));
              if (!n || *n < 1 || *n > most_threads()) {
                return fmt::format("'{}' is not a whole number from 1 to {} (this process may use {} cores)", s.substr(at, end - at),
                                   most_threads(), usable_cores());
              }
              at = end + 1;
            }
            return std::string();
          },
          "", "threads"));
    }
  }
}

std::string as_typed(const std::string& message, const CLI::App& command, const std::vector<std::string>& args) {
  if (!message.starts_with('-')) return message;
  const size_t end = std::min(message.find_first_of(": "), message.size());
  const CLI::Option* o = find_option(command, std::string_view(message).substr(0, end));
  const auto form = o ? typed_form(*o, args) : std::nullopt;
  return form ? *form + message.substr(end) : message;
}

std::string parse_error_text(const CLI::ParseError& e, const CLI::App& app, const std::vector<std::string>& args) {
  const CLI::App& command = used_command(app);
  const std::string hint = fmt::format("; see fewbit {}--help", &command == &app ? "" : command.get_name() + " ");
  std::string what = e.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&e)) {
    std::vector<std::string> left = app.remaining(true);
    // In the order typed: an unknown option comes with what follows it.
    auto place = [&](const std::string& s) { return std::find(args.begin(), args.end(), s) - args.begin(); };
    auto first = std::min_element(left.begin(), left.end(), [&](auto& a, auto& b) { return place(a) < place(b); });
    if (first == left.end()) return what + hint;
    const bool option = first->size() > 1 && (*first)[0] == '-';
    what = option ? fmt::format("unknown option '{}'", *first) : fmt::format("unexpected argument '{}'", *first);
    if (!option) {
      std::string positional;
      for (const CLI::Option* o : command.get_options([](const CLI::Option* x) { return x->get_positional(); }))
        positional += " " + o->get_name();
      if (!positional.empty()) what += fmt::format(" (the arguments are{})", positional);
    }
    return what + hint;
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&e)) {
    if (what.find("flag override") != std::string::npos)
      return as_typed("--" + what.substr(0, what.find(' ')), command, args) + ": takes no value" + hint;
    const std::string name = what.substr(0, what.find(':'));
    return as_typed(name + (what.find("received") != std::string::npos ? ": given more than once" : ": a value is missing"), command,
                    args) +
           hint;
  }
  return as_typed(what, command, args) + hint;
}

}  // namespace fewbit::cli
