// The ways in which a sample gets into a batch, one for each of ImageOptions and one for a cache.
#pragma once

#include <memory>

#include "stoker/pipeline/sample_writer.h"

namespace stoker {

// Decodes images and runs their ops, up to the pixels in the batch. `cache` keeps samples as stored.
std::unique_ptr<SampleWriter> make_pixel_writer(const WriterSetup& setup, const CacheOptions& cache);

// The same from a cache of pixels that are prepared up to the first random op.
std::unique_ptr<SampleWriter> make_cached_writer(const WriterSetup& setup, const CacheOptions& cache);

// Writes what a device decodes: the part of a dct record that the crop needs, still packed, and the draws of the ops. A
// sample whose image a device cannot make, or need not, gets pixels. Throws InvalidArgument for images that are too
// wide for a device.
std::unique_ptr<SampleWriter> make_packed_writer(const WriterSetup& setup, const PackedImages& images);

// Writes a number and draws for each image. Throws InvalidArgument for images of other samples, and for a data set or
// ops that need the host.
std::unique_ptr<SampleWriter> make_indexed_writer(const WriterSetup& setup, const IndexedImages& images);

}  // namespace stoker
