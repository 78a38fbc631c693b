// CSV follows RFC 4180: a cell with a comma or a quote is quoted. Its names are printable text, and an apostrophe
// before a name that begins with =, +, - or @ keeps spreadsheets from running it as a formula. JSON is one array with a
// line per sample, and has the exact names.
#include "engine/commands/prediction_file.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "cli/terminal/output_path.h"
#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/printable.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

// `path` with symbolic links resolved.
fs::path resolve(const std::string& path) {
    std::error_code none;
    const fs::path target = fs::canonical(path, none);
    return none ? fs::path(path) : target;
}

// True for a file that is written in place, such as a pipe. A regular file is replaced when all is written.
bool is_special(const fs::path& target) {
    std::error_code none;
    return fs::exists(target, none) && !fs::is_regular_file(target, none);
}

std::FILE* open_stream(const fs::path& path, const std::optional<TemporaryFile>& temporary) {
    if (!temporary) {
        return std::fopen(path.c_str(), "w");
    }
    const int own = ::fcntl(temporary->get(), F_DUPFD_CLOEXEC, 0);  // which fclose closes
    return own < 0 ? nullptr : ::fdopen(own, "w");
}

// True if a spreadsheet would run `text` as a formula. Numbers, such as the class name "-1", are not formulas.
bool is_formula(const std::string& text) {
    if (text.empty() || std::string_view("=+-@").find(text.front()) == std::string_view::npos) {
        return false;
    }
    double number = 0;
    const char* begin = text.data() + (text.front() == '+' ? 1 : 0);
    const auto [stop, error] = std::from_chars(begin, text.data() + text.size(), number);
    return error != std::errc() || stop != text.data() + text.size();
}

// A name or a reason as a cell of printable text.
std::string cell(const std::string& foreign) {
    std::string text = (is_formula(foreign) ? "'" : "") + printable(foreign);
    if (text.find_first_of(",\"") == std::string::npos) {
        return text;
    }
    std::string quoted = "\"";
    for (const char c : text) {
        quoted += c == '"' ? "\"\"" : std::string{c};
    }
    return quoted + '"';
}

std::string number(float probability) {
    return fmt::format("{:.7g}", probability);
}

}  // namespace

bool PredictionFile::is_named(const std::string& path) {
    return path.ends_with(".json") || path.ends_with(".csv");
}

void PredictionFile::check(const std::string& path) {
    if (path.empty()) {
        return;
    }
    if (!is_named(path)) {
        throw InvalidArgument({.where = "-o", .expected = "a file name that ends in .csv or .json", .got = path});
    }
    require_openable_file(path);
    if (const fs::path target = resolve(path); !is_special(target)) {
        require_writable_file(target);
    }
}

PredictionFile::PredictionFile(const std::string& path, std::vector<std::string> columns, std::int64_t top,
                               TaskKind task)
    : path_(resolve(path)),
      columns_(std::move(columns)),
      top_(std::min(static_cast<std::size_t>(top), columns_.size())),
      task_(task),
      json_(path.ends_with(".json")),
      file_(stdout) {
    check(path);
    if (!path.empty()) {
        if (!is_special(path_)) {
            temporary_.emplace(path_);
        }
        file_ = open_stream(path_, temporary_);
        if (file_ == nullptr) {
            throw errno_error(path, "a file that can be written");
        }
    }
    std::fputs(json_ ? "[" : csv_header().c_str(), file_);
}

PredictionFile::~PredictionFile() {
    if (file_ != nullptr && file_ != stdout) {
        std::fclose(file_);
    }
}

std::string PredictionFile::csv_header() const {
    std::string header = ranked() ? "key,class,probability" : "key";
    if (top_ == 0) {
        for (const std::string& name : columns_) {
            header += "," + cell(name);
        }
    }
    for (std::size_t i = 2; i <= top_; ++i) {
        header += fmt::format(",class_{0},probability_{0}", i);
    }
    return header + ",error\n";
}

std::vector<std::size_t> PredictionFile::most_probable(const Prediction& prediction) const {
    std::vector<std::size_t> order(prediction.values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::size_t count = std::max<std::size_t>(top_, 1);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](std::size_t a, std::size_t b) {
                          const float pa = prediction.values[a];
                          const float pb = prediction.values[b];
                          return pa != pb ? pa > pb : a < b;
                      });
    order.resize(count);
    return order;
}

std::string PredictionFile::csv_row(const Prediction& prediction) const {
    std::string row = cell(prediction.key);
    if (!prediction.error.empty()) {
        const std::size_t columns = top_ == 0 ? (ranked() ? 2 : 0) + columns_.size() : 2 * top_;
        return row + std::string(columns, ',') + "," + cell(prediction.error) + "\n";
    }
    if (ranked()) {
        for (const std::size_t i : most_probable(prediction)) {
            row += fmt::format(",{},{}", cell(columns_[i]), number(prediction.values[i]));
        }
    }
    if (top_ == 0) {
        for (const float value : prediction.values) {
            row += "," + number(value);
        }
    }
    return row + ",\n";
}

void PredictionFile::add_values(const Prediction& prediction, nlohmann::ordered_json& row) const {
    if (ranked()) {
        const std::size_t best = most_probable(prediction).front();
        row["class"] = columns_[best];
        row["probability"] = prediction.values[best];
    }
    auto& all = row[top_ > 0 ? "top" : task_ == TaskKind::regression ? "values" : "probabilities"];
    for (std::size_t i = 0; top_ == 0 && i < columns_.size(); ++i) {
        all[columns_[i]] = prediction.values[i];
    }
    if (top_ > 0) {
        for (const std::size_t i : most_probable(prediction)) {
            all.push_back({{"class", columns_[i]}, {"probability", prediction.values[i]}});
        }
    }
}

std::string PredictionFile::json_row(const Prediction& prediction) {
    nlohmann::ordered_json row = {{"key", prediction.key}};
    if (!prediction.error.empty()) {
        row["error"] = prediction.error;
    } else {
        add_values(prediction, row);
    }
    return (std::exchange(first_, false) ? "\n" : ",\n") + printable_lines(json_text(row));
}

void PredictionFile::write(const Prediction& prediction) {
    std::fputs((json_ ? json_row(prediction) : csv_row(prediction)).c_str(), file_);
}

void PredictionFile::finish() {
    if (json_) {
        std::fputs("\n]\n", file_);
    }
    if (file_ == stdout) {
        return;  // run_program checks stdout
    }
    errno = 0;
    if (std::fflush(file_) != 0 || std::ferror(file_) != 0) {
        throw errno_error(path_.string(), "the predictions to be written");
    }
    if (temporary_ && !temporary_->rename_to(path_)) {
        const MappedFile written(fs::path(fmt::format("/proc/self/fd/{}", temporary_->get())));
        write_file(path_, std::array{written.bytes()}, /*sync=*/false);
    }
    std::fclose(std::exchange(file_, nullptr));
}

}  // namespace stoker::cli
