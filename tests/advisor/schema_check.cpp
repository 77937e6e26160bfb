#include "tests/advisor/schema_check.h"

#include <algorithm>

namespace poolscope::testing {
namespace {

using nlohmann::json;

bool IsType(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  return type == "null" && value.is_null();
}

bool HasType(const json& value, const json& type) {
  if (type.is_string()) return IsType(value, type.get<std::string>());
  return std::any_of(type.begin(), type.end(),
                     [&](const json& each) { return IsType(value, each.get<std::string>()); });
}

std::string ObjectFault(const json& document, const json& schema, const std::string& path) {
  for (const json& name : schema.value("required", json::array())) {
    if (!document.contains(name.get<std::string>())) return path + " lacks " + name.dump();
  }
  const json properties = schema.value("properties", json::object());
  const json others = schema.value("additionalProperties", json(true));
  for (const auto& [name, value] : document.items()) {
    std::string below = path;
    below += "." + name;
    if (properties.contains(name)) {
      std::string fault = SchemaFault(value, properties[name], below);
      if (!fault.empty()) return fault;
    } else if (others.is_object()) {
      std::string fault = SchemaFault(value, others, below);
      if (!fault.empty()) return fault;
    } else if (others == json(false)) {
      return below + " is not in the schema";
    }
  }
  return "";
}

}  // namespace

std::string SchemaFault(const json& document, const json& schema, const std::string& path) {
  if (schema.contains("type") && !HasType(document, schema["type"])) {
    return path + " is " + document.dump() + ", not of type " + schema["type"].dump();
  }
  if (schema.contains("enum")) {
    const json& allowed = schema["enum"];
    if (std::find(allowed.begin(), allowed.end(), document) == allowed.end()) {
      return path + " is " + document.dump() + ", not one of " + allowed.dump();
    }
  }
  if (document.is_object()) return ObjectFault(document, schema, path);
  if (!document.is_array()) return "";
  if (document.size() < schema.value("minItems", size_t{0})) return path + " is too short";
  if (document.size() > schema.value("maxItems", document.size())) return path + " is too long";
  for (size_t i = 0; i < document.size() && schema.contains("items"); ++i) {
    std::string fault =
        SchemaFault(document[i], schema["items"], path + "[" + std::to_string(i) + "]");
    if (!fault.empty()) return fault;
  }
  return "";
}

}  // namespace poolscope::testing
