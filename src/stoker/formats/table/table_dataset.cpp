// Only the cells of columns that are used are kept, each as a number; the table itself is mapped while it is parsed.
#include "stoker/formats/table/table_dataset.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/utf8.h"
#include "stoker/formats/checked_growth.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/table/csv_reader.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTableName = "labels.csv";
constexpr std::string_view kImage = "the image";
constexpr std::string_view kLabel = "the label";
constexpr std::array<std::string_view, 9> kPaths = {"path",       "file",     "image",     "filename", "file_name",
                                                    "image_path", "filepath", "file_path", "image_id"};
constexpr std::array<std::string_view, 3> kLabels = {"label", "class", "target"};

using Header = std::vector<std::string>;

[[noreturn]] void refuse(std::string expected, std::string got, std::string hint = "") {
    throw DataError(
        {}, {.where = "table", .expected = std::move(expected), .got = std::move(got), .hint = std::move(hint)});
}

std::string describe(const Header& header) {
    constexpr std::size_t kListed = 20;
    const auto listed = std::span(header).first(std::min(header.size(), kListed));
    return fmt::format("columns {}{}", fmt::join(listed, ", "), header.size() > kListed ? ", ..." : "");
}

Header read_header(CsvReader& reader) {
    std::vector<std::string_view> cells;
    if (!reader.next(cells)) {
        refuse("a header and a row for each image", "an empty file");
    }
    Header header;
    for (const std::string_view cell : cells) {
        if (!is_utf8(cell)) {
            reader.refuse(1, "column names in UTF-8", "other bytes", "save the table as UTF-8");
        }
        const std::size_t begin = std::min(cell.find_first_not_of(" \t"), cell.size());
        header.emplace_back(cell.substr(begin, cell.find_last_not_of(" \t") + 1 - begin));
    }
    if (header.size() == 1 && header.front().find_first_of(";\t") != std::string::npos) {
        reader.refuse(1, "columns separated by commas", fmt::format("\"{}\"", header.front().substr(0, 80)));
    }
    return header;
}

// A table without a header would lose its first row. An image file of that name tells the two apart.
void refuse_image_names(const Header& header, const fs::path& folder, const CsvReader& reader) {
    for (const std::string& name : header) {
        if (is_image_name(name) && stays_within_folder(name) && is_file(folder / name)) {
            reader.refuse(1, "a header with the names of the columns",
                          fmt::format("\"{}\", which is an image", name.substr(0, 200)),
                          "add a first line such as path,label");
        }
    }
}

// The position of a column that must exist.
std::size_t find_column(const Header& header, std::string_view name) {
    const auto found = std::ranges::count(header, name);
    if (found != 1) {
        refuse(fmt::format("one column named {}", name),
               found == 0 ? describe(header) : fmt::format("{} columns of this name", found));
    }
    return static_cast<std::size_t>(std::ranges::find(header, name) - header.begin());
}

// The first of the usual names, in any case, that is a column which is not `taken`.
template <std::size_t N>
std::optional<std::size_t> find_usual(const Header& header, const std::array<std::string_view, N>& names,
                                      std::span<const std::size_t> taken) {
    for (const std::string_view name : names) {
        for (std::size_t at = 0; at < header.size(); ++at) {
            if (lower_case(header[at]) == name && std::ranges::find(taken, at) == taken.end()) {
                return at;
            }
        }
    }
    return std::nullopt;
}

// The columns that `from` names: one, or several separated by commas.
std::vector<std::size_t> find_columns(const Header& header, std::string_view from) {
    if (std::ranges::find(header, from) != header.end() || from.find(',') == std::string_view::npos) {
        return {find_column(header, from)};
    }
    std::vector<std::size_t> columns;
    while (true) {
        const std::size_t comma = from.find(',');
        std::string_view name = from.substr(0, comma);
        name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
        columns.push_back(find_column(header, name.substr(0, name.find_last_not_of(' ') + 1)));
        if (comma == std::string_view::npos) {
            return columns;
        }
        from.remove_prefix(comma + 1);
    }
}

// The error's expectation, for the image, the label or a field.
std::string for_part(const DataError& error, std::string_view part) {
    return fmt::format("{} for {}", error.info().expected, part);
}

std::string table_of(const std::string& path) {
    return is_folder(path) ? (fs::path(path) / kTableName).string() : path;
}

}  // namespace

bool is_table_path(const std::string& path) {
    return is_folder(path) ? is_file(fs::path(path) / kTableName) : is_file(path) && lower_case(path).ends_with(".csv");
}

TableDataset::TableDataset(const std::string& path, const FieldNames& fields)
    : path_(table_of(path)), folder_(fs::path(path_).parent_path()) {
    const MappedFile file{fs::path(path_)};
    parse(as_text(file.bytes()), fields);
}

TableDataset::TableDataset(const TableText& table, const FieldNames& fields)
    : path_(table.folder), folder_(table.folder) {
    parse(table.csv, fields);
}

void TableDataset::parse(std::string_view csv, const FieldNames& fields) {
    with_place({.path = path_}, [&] {
        CsvReader reader(csv, path_);
        const Header header = read_header(reader);
        refuse_image_names(header, folder_, reader);
        choose_columns(header, fields);
        files_ = std::make_unique<SampleFiles>(folder_.empty() ? "." : folder_, file_columns_);
        std::vector<std::string_view> cells;
        while (reader.next(cells)) {
            if (cells.size() != header.size()) {
                reader.refuse(reader.line(), fmt::format("{} cells, as in the header", header.size()),
                              fmt::format("{}", cells.size()));
            }
            if (lines_.empty()) {
                guess_fields(header, cells);
            }
            std::string_view part;
            try {
                add_row(cells, part);
            } catch (const DataError& error) {
                reader.refuse(reader.line(), for_part(error, part), error.info().got, error.info().hint);
            }
            push_checked(lines_, reader.line());
        }
        if (lines_.empty()) {
            refuse("a row for each image", "the header alone");
        }
        labels_.finish();
        if (label_ && labels_.numbered()) {
            const fs::path beside = fs::path(folder_) / fs::path(path_).filename();
            if (auto names = read_class_names(beside, std::ssize(labels_.classes()) - 1); !names.empty()) {
                labels_.set_names(std::move(names));
            }
        }
        for (std::size_t i = 0; i < sources_.size(); ++i) {
            if (sources_[i].values == nullptr) {
                continue;
            }
            sources_[i].values->finish();
            const auto* names = dynamic_cast<const ClassColumn*>(sources_[i].values.get());
            if (names != nullptr && !names->numbered()) {
                fields_[i].classes = names->classes();
            }
        }
    });
}

// A column that a further field reads is not taken for the label by its name.
void TableDataset::choose_columns(const Header& header, const FieldNames& names) {
    if (!names.image.empty()) {
        image_ = find_column(header, names.image);
    } else {
        const auto named = std::ranges::find_if(header, [&](const std::string& name) {
            return !name.empty() && name != names.label &&
                   std::ranges::find(kLabels, lower_case(name)) == kLabels.end();
        });
        const auto first = static_cast<std::size_t>(named == header.end() ? 0 : named - header.begin());
        image_ = find_usual(header, kPaths, {}).value_or(first);  // pandas writes the row's number under an empty name
    }
    image_column_ = header[image_];
    std::vector<std::size_t> taken = {image_};
    for (const FieldRequest& request : names.more) {
        add_field(header, request);
        taken.insert(taken.end(), sources_.back().cells.begin(), sources_.back().cells.end());
    }
    unlabelled_ = names.unlabelled;
    if (unlabelled_) {
        return;
    }
    label_ = names.label.empty() ? find_usual(header, kLabels, taken) : std::optional(find_column(header, names.label));
}

void TableDataset::add_field(const Header& header, const FieldRequest& request) {
    FieldRequest as = request;
    as.kind = request.kind.value_or(FieldKind::value);
    Source source{.cells = find_columns(header, request.source())};
    const auto count = static_cast<std::int64_t>(source.cells.size());
    const std::string where = fmt::format("{}: {}", path_, request.name);
    if (*as.kind == FieldKind::tokens || *as.kind == FieldKind::bytes || (has_pixels(*as.kind) && count > 1)) {
        throw Unsupported({.where = where,
                           .expected = "columns of kind value, label or boxes, or one column of paths (image, mask)",
                           .got = fmt::format("{} of kind {}", count, field_kind_name(*as.kind))});
    }
    if (has_pixels(*as.kind)) {
        source.file = file_columns_++;
        fields_.push_back({.name = request.name, .kind = *as.kind, .dtype = DType::uint8});
    } else {
        if (*as.kind == FieldKind::label && count == 1) {
            source.values = std::make_unique<ClassColumn>();
        } else {
            source.values = make_number_column(*as.kind == FieldKind::label);
        }
        const Shape shape = *as.kind == FieldKind::boxes ? Shape{1, count} : count > 1 ? Shape{count} : Shape{};
        fields_.push_back(array_field(as, source.values->dtype(), shape, where));
    }
    sources_.push_back(std::move(source));
}

void TableDataset::guess_fields(const Header& header, std::span<const std::string_view> cells) {
    for (std::size_t at = 0; at < header.size(); ++at) {
        if (at == image_ || at == label_) {
            continue;
        }
        if (is_image_name(cells[at])) {
            stored_.push_back({.name = header[at], .kind = FieldKind::image, .dtype = DType::uint8});
        } else if (is_table_number(cells[at])) {
            stored_.push_back({.name = header[at], .kind = FieldKind::value, .dtype = DType::float32});
        } else {
            stored_.push_back({.name = header[at], .kind = FieldKind::label, .dtype = DType::int64});
        }
    }
}

// Without the table's folder if `name` is a path from the root that begins with it.
std::string_view TableDataset::within_folder(std::string_view name) {
    if (!name.starts_with('/')) {
        return name;
    }
    if (roots_.empty()) {
        const fs::path folder = folder_.empty() ? "." : folder_;
        std::error_code unknown;  // then the path stays unchanged and is refused
        for (const fs::path& root :
             {fs::absolute(folder, unknown).lexically_normal(), fs::canonical(folder, unknown)}) {
            roots_.push_back((root / "").lexically_normal().string());
        }
    }
    const auto root = std::ranges::find_if(roots_, [&](const std::string& start) { return name.starts_with(start); });
    return root == roots_.end() ? name : name.substr(root->size());
}

// The image that an id without an ending names; `name` itself where there is none, or a file of that very name.
std::string_view TableDataset::with_ending(std::string_view name) {
    if (name.empty() || is_image_name(name) || !stays_within_folder(name) || is_file(fs::path(folder_) / name)) {
        return name;
    }
    if (!stems_) {
        stems_.emplace(folder_);
    }
    const std::string_view found = stems_->find(name);
    return found.empty() ? name : found;
}

void TableDataset::add_file(std::size_t column, std::string_view name) {
    const std::string_view relative = with_ending(within_folder(name));
    if (!name.empty() && !stays_within_folder(relative)) {
        refuse("a path within the table's folder", fmt::format("\"{}\"", name.substr(0, 200)),
               "put the table into a folder above its images");
    }
    files_->add(column, relative);
}

void TableDataset::add_row(std::span<const std::string_view> cells, std::string_view& part) {
    part = kImage;
    add_file(0, cells[image_]);
    if (label_) {
        part = kLabel;
        labels_.add(cells.subspan(*label_, 1));
    }
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        const Source& source = sources_[i];
        part = fields_[i].name;
        if (source.values == nullptr) {
            add_file(source.file, cells[source.cells.front()]);
            continue;
        }
        chosen_.clear();
        std::ranges::transform(source.cells, std::back_inserter(chosen_), [&](std::size_t at) { return cells[at]; });
        source.values->add(chosen_);
    }
}

std::string TableDataset::advice() const {
    const auto text = std::ranges::find(stored_, FieldKind::label, &Field::kind);
    if (label_ || unlabelled_ || !fields_.empty() || text == stored_.end()) {
        return "";
    }
    return fmt::format("no column is called {}, so the samples have no labels; the column {} may have them",
                       fmt::join(kLabels, ", "), text->name);
}

std::string TableDataset::key(std::int64_t index) const {
    check_index(index);
    return std::string(files_->name(0, index));
}

// Paths may have been written for another folder. Empty if the file is there.
std::string TableDataset::hint_for(const std::string& file, std::string_view part) const {
    const std::string shown = folder_.empty() ? "./" : (fs::path(folder_) / "").string();
    if (is_file(fs::path(folder_) / file)) {
        return "";
    }
    const bool other_column = part == kImage && !is_image_name(file);
    return fmt::format(
        "paths are relative to {}{}", shown,
        other_column ? fmt::format(", and are read from the column {}: data.fields.image (--image-field) names another",
                                   image_column_)
                     : "");
}

std::optional<std::int64_t> TableDataset::label(std::int64_t index) const {
    check_index(index);
    return label_ ? labels_.at(index).value_or(-1) : -1;
}

std::span<const std::string> TableDataset::classes() const {
    return labels_.classes();
}

void TableDataset::read(std::int64_t index, Sample& sample) const {
    check_index(index);
    std::string_view part = kImage;
    try {
        files_->read(0, index, sample);
        sample.label = *label(index);
        for (std::size_t i = 0; i < fields_.size(); ++i) {
            part = fields_[i].name;
            if (sources_[i].values != nullptr) {
                sources_[i].values->read(index, sample.field(i));
            } else {
                files_->read(sources_[i].file, index, sample.field(i));
            }
        }
    } catch (const DataError& error) {
        const std::string& file = error.place().key;
        const std::int64_t line = lines_[static_cast<std::size_t>(index)];
        throw DataError({.path = path_, .key = file.empty() ? key(index) : file},
                        {.where = "table",
                         .expected = for_part(error, part),
                         .got = fmt::format("{}, line {} of the table", error.info().got, line),
                         .hint = file.empty() ? "" : hint_for(file, part)});
    }
}

}  // namespace stoker
