// Seeds that need more than the image codecs.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace stoker::fuzz {

using Input = std::vector<std::byte>;

// Each JPEG as a dct record, of each kind.
std::vector<Input> dct_records(const std::vector<Input>& jpegs);

// Complete inputs of the data sets' targets, by target.
std::map<std::string, std::vector<Input>> format_seeds();

// The same for pickles and zip files.
std::map<std::string, std::vector<Input>> pickle_seeds();

// Tar archives, each after a byte that says whether checksums are corrected.
std::vector<std::vector<std::byte>> tars();
std::vector<std::vector<std::byte>> tar_fields();
std::vector<std::vector<std::byte>> tar_indices();
std::vector<std::vector<std::byte>> remote_texts();
std::vector<std::vector<std::byte>> remote_listings();
std::vector<std::vector<std::byte>> url_names();

// Texts of /proc and /sys.
std::vector<std::vector<std::byte>> counter_texts();

// Values of LMDB records.
std::vector<std::vector<std::byte>> lmdb_records();

// Roots, depths and pages, in the layout of fuzz_lmdb_tree.cpp.
std::vector<std::vector<std::byte>> lmdb_trees();

// Addresses of headers and HDF5 files, in the layout of fuzz_hdf5.cpp.
std::vector<Input> hdf5_files();

// Shards of TFRecord, records and an index, in the layout of fuzz_tfrecord.cpp.
std::vector<Input> tfrecords();
// Indices with a shard of MDS or LitData, in the layout of shard_folder.h.
std::vector<Input> mds_shards();
std::vector<Input> litdata_chunks();

// Traces of torch.profiler.
std::vector<Input> traces();

}  // namespace stoker::fuzz
