#include "viewer/panels/panel.h"

namespace poolscope {

std::string PanelContext::Name(uint32_t id) const {
  const auto found = answer->names->find(id);
  return found == answer->names->end() ? std::string() : found->second;
}

size_t PanelContext::LinkIndex(const std::string& link) const {
  const std::vector<LinkRow>& links = answer->catalog->links;
  for (size_t i = 0; i < links.size(); ++i) {
    if (links[i].link == link) return i;
  }
  return 0;
}

}  // namespace poolscope
