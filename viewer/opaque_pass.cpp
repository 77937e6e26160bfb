#include "viewer/opaque_pass.h"

#define GL_GLEXT_PROTOTYPES
#include <GL/gl.h>
#include <GL/glext.h>

#include <initializer_list>

namespace poolscope::opaque_pass {
namespace {

constexpr const char* kVertex = R"(#version 130
uniform mat4 ProjMtx;
in vec2 Position;
in vec4 Color;
out vec4 colour;
void main() {
  colour = Color;
  gl_Position = ProjMtx * vec4(Position, 0, 1);
}
)";
constexpr const char* kFragment = R"(#version 130
in vec4 colour;
out vec4 result;
void main() { result = colour; }
)";

// One window, one context: main thread only.
GLuint program = 0;
GLint projection = -1;
bool failed = false;

GLuint Compile(GLenum kind, const char* source) {
  const GLuint shader = glCreateShader(kind);
  glShaderSource(shader, 1, &source, nullptr);
  glCompileShader(shader);
  return shader;
}

// Made for the attribute places of ImGui's own program, whose vertex array stays bound.
void Make(GLuint imgui_program) {
  program = glCreateProgram();
  const GLuint vertex = Compile(GL_VERTEX_SHADER, kVertex);
  const GLuint fragment = Compile(GL_FRAGMENT_SHADER, kFragment);
  glAttachShader(program, vertex);
  glAttachShader(program, fragment);
  for (const char* name : {"Position", "Color"}) {
    const GLint place = glGetAttribLocation(imgui_program, name);
    if (place >= 0) glBindAttribLocation(program, static_cast<GLuint>(place), name);
  }
  glLinkProgram(program);
  GLint linked = 0;
  glGetProgramiv(program, GL_LINK_STATUS, &linked);
  glDeleteShader(vertex);
  glDeleteShader(fragment);
  failed = linked == 0;
  projection = glGetUniformLocation(program, "ProjMtx");
}

void Switch(const ImDrawList*, const ImDrawCmd*) {
  if (failed) return;  // then ImGui's own program draws the same picture, slower
  GLint imgui_program = 0;
  glGetIntegerv(GL_CURRENT_PROGRAM, &imgui_program);
  const auto current = static_cast<GLuint>(imgui_program);
  if (program == 0) Make(current);
  if (failed) return;
  GLfloat matrix[16];
  glGetUniformfv(current, glGetUniformLocation(current, "ProjMtx"), matrix);
  glUseProgram(program);
  glUniformMatrix4fv(projection, 1, GL_FALSE, matrix);
  glDisable(GL_BLEND);
}

}  // namespace

void Begin(ImDrawList* list) { list->AddCallback(Switch, nullptr); }

void End(ImDrawList* list) { list->AddCallback(ImDrawCallback_ResetRenderState, nullptr); }

void Forget() {
  if (program != 0) glDeleteProgram(program);
  program = 0;
  failed = false;
}

}  // namespace poolscope::opaque_pass
