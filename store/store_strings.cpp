#include <fmt/format.h>

#include "store/store.h"
#include "store/store_impl.h"

namespace poolscope {

Result<uint32_t> Store::FindString(std::string_view text) const {
  Impl& impl = *impl_;
  if (const auto found = impl.string_ids.find(text); found != impl.string_ids.end()) {
    return found->second;
  }
  if (Status fresh = impl.Refresh(); !fresh.ok()) return fresh.error();
  auto use = impl.db.Prepare("SELECT string_id FROM string WHERE text = ?");
  if (!use.ok()) return use.error();
  (*use)->Bind(0, text);
  const auto row = use->Step("string");
  if (!row.ok()) return row.error();
  if (!*row) return uint32_t{0};
  const auto id = static_cast<uint32_t>((*use)->Integer(0));
  impl.string_ids.emplace(text, id);
  impl.texts.emplace(id, text);
  return id;
}

Result<uint32_t> Store::Intern(std::string_view text) {
  Impl& impl = *impl_;
  auto id = FindString(text);
  if (!id.ok() || *id != 0) return id;
  if (Status may = impl.MayWrite("Intern"); !may.ok()) return may.error();
  auto use = impl.db.Prepare("INSERT INTO string (text) VALUES (?)");
  if (!use.ok()) return use.error();
  (*use)->Bind(0, text);
  if (Status status = impl.Note(use->Run("string")); !status.ok()) return status.error();
  id = static_cast<uint32_t>(sqlite3_last_insert_rowid(impl.db.get()));
  impl.string_ids.emplace(text, *id);
  impl.texts.emplace(*id, text);
  if (impl.in_transaction) impl.new_strings.push_back(*id);
  return id;
}

Result<std::string> Store::String(uint32_t id) const {
  Impl& impl = *impl_;
  if (id == 0) return std::string();
  if (const auto found = impl.texts.find(id); found != impl.texts.end()) return found->second;
  if (Status fresh = impl.Refresh(); !fresh.ok()) return fresh.error();
  auto use = impl.db.Prepare("SELECT text FROM string WHERE string_id = ?");
  if (!use.ok()) return use.error();
  (*use)->Bind(0, id);
  const auto row = use->Step("string");
  if (!row.ok()) return row.error();
  if (!*row) {
    return Error{fmt::format("store {} is damaged: it has no string {}", impl.path.string(), id)};
  }
  const auto text = (*use)->Text(0);
  impl.string_ids.emplace(text, id);
  return impl.texts.emplace(id, text).first->second;
}

Status Store::PutSchema(uint32_t schema, const std::vector<SchemaField>& fields) {
  Impl& impl = *impl_;
  if (Status may = impl.MayWrite("PutSchema"); !may.ok()) return may;
  {
    auto use = impl.db.Prepare("DELETE FROM payload_field WHERE schema = ?");
    if (!use.ok()) return impl.Note(use.error());
    (*use)->Bind(0, schema);
    if (Status status = impl.Note(use->Run("payload_field")); !status.ok()) return status;
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    auto use = impl.db.Prepare("INSERT INTO payload_field VALUES (?, ?, ?, ?)");
    if (!use.ok()) return impl.Note(use.error());
    const std::string_view type(&fields[i].type, 1);
    (*use)->Bind(0, schema);
    (*use)->Bind(1, static_cast<int64_t>(i));
    (*use)->Bind(2, fields[i].name);
    (*use)->Bind(3, type);
    if (Status status = impl.Note(use->Run("payload_field")); !status.ok()) return status;
  }
  return {};
}

Result<std::vector<Store::SchemaField>> Store::Schema(uint32_t schema) const {
  if (Status fresh = impl_->Refresh(); !fresh.ok()) return fresh.error();
  auto use =
      impl_->db.Prepare("SELECT name, type FROM payload_field WHERE schema = ? ORDER BY position");
  if (!use.ok()) return use.error();
  (*use)->Bind(0, schema);
  std::vector<SchemaField> fields;
  while (true) {
    const auto row = use->Step("payload_field");
    if (!row.ok()) return row.error();
    if (!*row) return fields;
    const std::string_view type = (*use)->Text(1);
    fields.push_back({std::string((*use)->Text(0)), type.empty() ? 'u' : type[0]});
  }
}

}  // namespace poolscope
