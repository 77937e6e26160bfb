#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace poolscope::testing {

// Checks a document against the part of JSON Schema that docs/report.schema.json uses: type, enum,
// properties, required, additionalProperties, items, minItems, maxItems. The first fault found,
// with its path; "" where there is none.
std::string SchemaFault(const nlohmann::json& document, const nlohmann::json& schema,
                        const std::string& path = "$");

}  // namespace poolscope::testing
