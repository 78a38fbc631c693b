// Reads one sample of a data set, and separates errors of the sample from those of the system.
#pragma once

#include "stoker/formats/dataset.h"

namespace stoker {

// `sample` may hold an earlier one. It is reset first, because a data set sets only the members it has.
void read_sample(const Dataset& dataset, std::int64_t index, Sample& sample, const FrameWindow& wanted = {});

// The wanted frames of files that hold several: those of a video, decoded into `pixels`, and, if frames are wanted, the
// pages of a TIFF. The sample keeps the file's bytes. `channels`: 1 makes videos grey. True if it decoded. Throws
// DataError for a damaged file, and InvalidArgument for a video without a number of frames.
bool add_frames(Sample& sample, const FrameWindow& wanted, Buffer& pixels, std::int64_t channels = 0);

// Inside a catch block: rethrows errors of a sample's bytes as DataError with path, key and index. Errors of the system
// or the caller are rethrown unchanged. Bytes that a damaged map lost are an error of the system.
[[noreturn]] void rethrow_located(const Dataset& dataset, std::int64_t index);

}  // namespace stoker
