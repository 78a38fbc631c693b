// Finds the records of a TFRecord shard, and their labels, by one pass from front to back.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/formats/tfrecord/tf_index.h"

namespace stoker {

struct TfScan {
    TfForm form = TfForm::plain;
    std::uint64_t decoded_bytes = 0;
    std::vector<TfRecordPlace> records;
};

// Throws as make_tf_index.
TfScan scan_tf_shard(const ByteFile& shard, const TfLabelNames& labels);

}  // namespace stoker
