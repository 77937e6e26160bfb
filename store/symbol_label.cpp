#include "store/symbol_label.h"

#include <cctype>

namespace poolscope {
namespace {

constexpr std::string_view kMore = "\xe2\x80\xa6";

bool InName(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Where the name of the function ends and begins: before its arguments, after what it returns.
std::string_view WithoutSignature(std::string_view symbol) {
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < symbol.size(); ++i) {
    const char c = symbol[i];
    if (c == '<') {
      ++depth;
    } else if (c == '>' && depth > 0 && symbol[i - 1] != '-') {
      --depth;
    } else if (depth == 0 && c == ' ') {
      begin = i + 1;
    } else if (depth == 0 && c == '(' && i > begin) {
      return symbol.substr(begin, i - begin);
    }
  }
  return symbol.substr(begin);
}

std::string WithoutNamespaces(std::string_view name) {
  std::string kept;
  size_t word = 0;  // where the name at hand begins in `kept`
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i).starts_with("::") && word < kept.size()) {
      kept.resize(word);
      ++i;
    } else if (kept.ends_with('>') && name[i] == ' ' && name.substr(i + 1).starts_with('>')) {
      // "> >" of the time before C++11
    } else {
      kept += name[i];
      if (!InName(name[i])) word = kept.size();
    }
  }
  return kept;
}

// With "…" for what is deeper than so many templates.
std::string Folded(std::string_view name, int most_depth) {
  std::string folded;
  int depth = 0;
  for (const char c : name) {
    if (c == '>' && depth > 0 && depth-- > most_depth + 1) continue;
    if (depth <= most_depth) folded += c;
    if (c == '<' && depth++ == most_depth) folded += kMore;
  }
  return folded;
}

}  // namespace

std::string SymbolLabel(std::string_view symbol, size_t most) {
  std::string text(symbol);
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (size_t at; (at = text.find(kAnonymous)) != std::string::npos;) {
    text.erase(at, kAnonymous.size());
  }
  const std::string name = WithoutNamespaces(WithoutSignature(text));
  std::string label = name;
  for (int depth = 5; label.size() > most && depth >= 0; --depth) label = Folded(name, depth);
  if (label.size() <= most) return label;
  const size_t kept = most > kMore.size() ? most - kMore.size() : 0;
  return label.substr(0, kept - kept / 2).append(kMore) + label.substr(label.size() - kept / 2);
}

}  // namespace poolscope
