// Arbitrary bytes as labels.csv: as rows, which must be read back after they are quoted, and as a data set.
#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "formats/table/csv_rows.h"
#include "fuzz/formats/sources.h"
#include "stoker/base/file.h"
#include "stoker/formats/table/csv_reader.h"
#include "stoker/formats/table/table_dataset.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

using stoker::testing::Rows;
using stoker::testing::rows_of;

std::string quoted(const Rows& rows) {
    std::string text;
    for (const auto& row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            text += i == 0 ? "\"" : ",\"";
            for (const char c : row[i]) {
                text.append(c == '"' ? 2 : 1, c);
            }
            text += '"';
        }
        text += "\r\n";
    }
    return text;
}

void check_dataset(const std::string& path, const FieldNames& fields) {
    succeeds([&] {
        const TableDataset dataset(path, fields);
        require(dataset.size() >= 1 && dataset.fields().size() == fields.more.size());
        const auto classes = static_cast<std::int64_t>(dataset.classes().size());
        Sample sample;
        for (std::int64_t i = 0; i < std::min<std::int64_t>(dataset.size(), 16); ++i) {
            const std::int64_t label = dataset.label(i).value();
            require(label >= -1 && (classes == 0 || label < classes));
            require(dataset.key(i).empty() || stays_within_folder(dataset.key(i)));
            succeeds([&] { dataset.read(i, sample); });
        }
    });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Scratch scratch;
    const auto input = as_input(data, size);
    Rows rows;
    if (!succeeds([&] { rows = rows_of(as_text(input)); })) {
        return 0;
    }
    require(rows_of(quoted(rows)) == rows);
    const std::string path = scratch.write("labels.csv", input).string();
    check_dataset(path, {});
    if (!rows.empty() && rows.front().size() >= 3) {
        const auto& header = rows.front();
        check_dataset(path, {.image = header[0],
                             .label = header[1],
                             .more = {{.name = "value", .from = header[2]},
                                      {.name = "label", .from = header[1], .kind = FieldKind::label},
                                      {.name = "both", .from = header[1] + "," + header[2], .kind = FieldKind::label},
                                      {.name = "boxes",
                                       .from = fmt::format("{0},{1},{0},{1}", header[1], header[2]),
                                       .kind = FieldKind::boxes},
                                      {.name = "mask", .from = header[2], .kind = FieldKind::mask}}});
    }
    return 0;
}
