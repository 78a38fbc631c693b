// Makes zip files of given members, as numpy.savez and savez_compressed write them.
#pragma once

#include <zlib.h>

#include <string>
#include <string_view>
#include <vector>

#include "formats/arrays/npy_support.h"

namespace stoker::testing {

struct Member {
    std::string name;  // "x.npy"
    std::string content;
    bool deflate = false;
};

inline std::string deflated(std::string_view content) {
    z_stream stream{};
    ::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    std::string out(::deflateBound(&stream, content.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
    stream.avail_in = static_cast<uInt>(content.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    ::deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    ::deflateEnd(&stream);
    return out;
}

inline std::string zip(const std::vector<Member>& members) {
    std::string file;
    std::string directory;
    for (const Member& member : members) {
        const std::string packed = member.deflate ? deflated(member.content) : member.content;
        const auto sum =
            ::crc32(0, reinterpret_cast<const Bytef*>(member.content.data()), static_cast<uInt>(member.content.size()));
        // Version, flags, method, time, date, checksum, sizes, length of the name, of the extra field.
        const std::string common =
            little_endian(20, 2) + little_endian(0, 2) + little_endian(member.deflate ? 8 : 0, 2) +
            little_endian(0, 4) + little_endian(sum, 4) + little_endian(packed.size(), 4) +
            little_endian(member.content.size(), 4) + little_endian(member.name.size(), 2) + little_endian(0, 2);
        directory += "PK\1\2" + little_endian(20, 2) + common + std::string(10, '\0') + little_endian(file.size(), 4) +
                     member.name;
        file += "PK\3\4" + common + member.name + packed;
    }
    const std::string end = "PK\5\6" + little_endian(0, 4) + little_endian(members.size(), 2) +
                            little_endian(members.size(), 2) + little_endian(directory.size(), 4) +
                            little_endian(file.size(), 4) + little_endian(0, 2);
    return file + directory + end;
}

}  // namespace stoker::testing
