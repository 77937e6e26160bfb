#pragma once

#include <imgui.h>

namespace poolscope {

// Between Begin and End, a draw list's rectangles are drawn in their vertex colour alone: no
// texture is read and nothing is blended. Software renderers spend their time on just that; most of
// a timeline is plain rectangles. A GL context must be current when the list is drawn.
namespace opaque_pass {

void Begin(ImDrawList* list);
void End(ImDrawList* list);
void Forget();  // with the GL context that it was drawn in

}  // namespace opaque_pass

}  // namespace poolscope
