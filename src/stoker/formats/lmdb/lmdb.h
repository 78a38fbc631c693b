// A data set in an LMDB database, in the order of its keys. lmdb_record.h lists the kinds of records. The data set is
// the state of the database at the time it was opened.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/lmdb/lmdb_keys.h"
#include "stoker/formats/lmdb/lmdb_leaves.h"
#include "stoker/formats/lmdb/lmdb_record.h"
#include "stoker/formats/lmdb/lmdb_snapshot.h"

namespace stoker {

// True for a folder that holds data.mdb and for a file named .lmdb or .mdb.
bool holds_lmdb(const std::filesystem::path& data);

class LmdbDataset final : public Dataset {
  public:
    // Throws what LmdbSnapshot throws, and DataError if the database is empty. Further fields are entries of pickled
    // dicts or tuples; their shapes are those of some samples, and other samples of other shapes are bad ones.
    explicit LmdbDataset(const std::filesystem::path& data, const FieldNames& fields = {}, Split split = Split::train);

    std::int64_t size() const override { return keys_.size(); }
    void read(std::int64_t index, Sample& sample) const override;
    // Fetches small values into the processor's cache.
    void prefetch(std::span<const std::int64_t> indices) const override;
    // The database's key; bytes that are not printable UTF-8 as \x00. If "__keys__" holds a pickled text, the records
    // are dicts, and that text is the name of the field with the sample's key.
    std::string key(std::int64_t index) const override;
    // Known without reading the record if labels are stored under separate keys.
    std::optional<std::int64_t> label(std::int64_t index) const override;
    // The list of texts, pickled or JSON, under "__classes__". Without it there are none, since all records would have
    // to be read for the largest label; training then needs model.classes.
    std::span<const std::string> classes() const override { return classes_; }
    std::span<const Field> fields() const override { return fields_; }
    std::vector<Field> stored_fields() const override;
    std::string_view format() const override { return "lmdb"; }
    std::string path() const override { return path_; }
    std::int64_t bytes() const override { return static_cast<std::int64_t>(snapshot_.bytes()); }

  private:
    // Each thread has a record reader, which reuses its memory. More than kRecords threads share them.
    struct Records {
        Records(const FieldNames& fields, Split split) : record(fields, split) {}
        std::mutex mutex;
        LmdbRecord record;
    };
    static constexpr std::size_t kRecords = 32;

    Records& thread_records() const;
    std::span<const std::byte> load(std::int64_t index, std::string_view key, Buffer& storage) const;
    std::vector<FieldRequest> present_requests() const;
    Field describe(const FieldRequest& request) const;
    std::optional<Field> described_by_writer(const FieldRequest& request, const std::string& where) const;
    std::string_view key_of(std::int64_t index, LmdbKeys::Memory& memory) const;
    std::int64_t paired_label(std::string_view key) const;

    std::string path_;
    LmdbSnapshot snapshot_;
    LmdbKeys keys_;
    LmdbLeaves leaves_;
    FieldNames names_;  // as asked for
    Split split_;
    std::vector<Field> fields_;
    std::vector<std::string> classes_;
    std::string key_field_;  // empty: keys are the database's
    std::vector<std::unique_ptr<Records>> records_;
};

}  // namespace stoker
