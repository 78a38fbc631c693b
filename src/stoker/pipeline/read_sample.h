// Reads one sample of a data set, and separates errors of the sample from those of the system.
#pragma once

#include "stoker/formats/dataset.h"

namespace stoker {

// `sample` may hold an earlier one. It is reset first, because a data set sets only the members it has.
void read_sample(const Dataset& dataset, std::int64_t index, Sample& sample, const FrameWindow& wanted = {});

// Decodes the wanted part of files that hold more than an image, into `memory`. A video's frames, and the pages of a
// TIFF if frames are wanted, are added to the sample, which keeps the file's bytes. A sound replaces them: raw float32
// pixels as planes (C, 1, samples); with a `wanted.sample_rate` a video is a sound. `channels`: 1 makes videos grey and
// averages a sound's channels. True if it decoded. Throws DataError for a damaged file, and InvalidArgument for a video
// without a number of frames.
bool decode_wanted(Sample& sample, const FrameWindow& wanted, Buffer& memory, std::int64_t channels = 0);

// Inside a catch block: rethrows errors of a sample's bytes as DataError with path, key and index. Errors of the system
// or the caller are rethrown unchanged. Bytes that a damaged map lost are an error of the system.
[[noreturn]] void rethrow_located(const Dataset& dataset, std::int64_t index);

}  // namespace stoker
