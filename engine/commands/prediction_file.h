// Writes predictions row by row as CSV or JSON.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/train/run/predict.h"

namespace stoker::cli {

class PredictionFile {
  public:
    // Throws InvalidArgument for a name that ends in neither .csv nor .json, and IoError if the path cannot be written.
    static void check(const std::string& path);
    // Whether the name ends in .csv or .json.
    static bool is_named(const std::string& path);

    // `path` ends in .csv or .json; empty: CSV on stdout. `columns` names the values of a prediction. A classification
    // has the likeliest class in front of them; `top`: only the most probable classes, this many; 0: all values, in
    // the order of `columns`. Throws what `check` throws.
    PredictionFile(const std::string& path, std::vector<std::string> columns, std::int64_t top,
                   TaskKind task = TaskKind::classification);
    PredictionFile(const PredictionFile&) = delete;
    PredictionFile& operator=(const PredictionFile&) = delete;
    ~PredictionFile();

    void write(const Prediction& prediction);
    // Gives what was written the name `path`; an existing file is unchanged until then. Throws IoError if writing
    // failed.
    void finish();

  private:
    std::vector<std::size_t> most_probable(const Prediction& prediction) const;
    bool ranked() const { return task_ == TaskKind::classification; }
    std::string csv_header() const;
    std::string csv_row(const Prediction& prediction) const;
    std::string json_row(const Prediction& prediction);
    void add_values(const Prediction& prediction, nlohmann::ordered_json& row) const;

    std::filesystem::path path_;
    std::optional<TemporaryFile> temporary_;  // none for stdout, and for a path_ that is not a regular file
    std::vector<std::string> columns_;
    std::size_t top_;
    TaskKind task_;
    bool json_;
    bool first_ = true;
    std::FILE* file_;
};

}  // namespace stoker::cli
