# cmake -DOUTPUT=FILE -DFOLDER=DIR -P scenarios.cmake: writes scenarios/*.toml as C++ text.
file(GLOB files ${FOLDER}/*.toml)
list(SORT files)
set(rows "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND rows "    ScenarioText{\"${name}\", R\"toml(${text})toml\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"reference-trainer/scenario_texts.h\"

namespace poolscope::trainer {
namespace {
constexpr ScenarioText kTexts[] = {
${rows}};
}
const std::span<const ScenarioText> kScenarioTexts = kTexts;
}  // namespace poolscope::trainer
")
