#include "viewer/panels/panel.h"

#include "store/symbol_label.h"

namespace poolscope {

std::string PanelContext::Name(uint32_t id) const {
  const auto found = answer->names->find(id);
  return found == answer->names->end() ? std::string() : found->second;
}

bool PanelContext::IsSymbol(uint32_t id) const { return answer->catalog->symbols.count(id) != 0; }

std::string PanelContext::Label(uint32_t id, const std::string& name) const {
  constexpr size_t kMostBytes = 100;
  return IsSymbol(id) ? SymbolLabel(name, kMostBytes) : name;
}

size_t PanelContext::LinkIndex(const std::string& link) const {
  const std::vector<LinkRow>& links = answer->catalog->links;
  for (size_t i = 0; i < links.size(); ++i) {
    if (links[i].link == link) return i;
  }
  return 0;
}

}  // namespace poolscope
