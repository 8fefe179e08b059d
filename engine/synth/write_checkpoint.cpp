#include "engine/synth/write_checkpoint.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "engine/model/mapped_file.hpp"
#include "engine/model/weights.hpp"
#include "engine/synth/random_source.hpp"

namespace weir::engine::synth {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t k_piece_bytes = 64 * k_fill_bytes;
constexpr std::int64_t k_free_margin_bytes = std::int64_t{64} << 20;

// Notes what is asked of it. What it gives is all zero, of memory that nothing else is in.
class recorder final : public model::tensor_source {
 public:
  ~recorder() override {
    if (zeros_ != nullptr) ::munmap(zeros_, zero_bytes_);
  }

  std::optional<model::tensor_view> find(std::string_view) const override { return std::nullopt; }

  std::optional<model::tensor_view> take(std::string_view name, const std::vector<std::int64_t>& shape,
                                         model::storage how) override {
    seen.push_back({std::string(name), shape, how});
    const auto plan = plan_of(name, shape, how);
    const auto bytes = static_cast<std::size_t>(plan.bytes);
    if (bytes > zero_bytes_) grow(bytes);
    return model::tensor_view{std::string(plan.dtype), shape, {static_cast<const std::byte*>(zeros_), bytes}};
  }

  std::vector<named_tensor> seen;

 private:
  // Pages that are only read share one page of zeros.
  void grow(std::size_t bytes) {
    if (zeros_ != nullptr) ::munmap(zeros_, zero_bytes_);
    void* made = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) throw std::bad_alloc();
    zeros_ = made;
    zero_bytes_ = bytes;
  }

  void* zeros_ = nullptr;
  std::size_t zero_bytes_ = 0;
};

// What was made so far; removed unless all of it is kept.
class made_files final {
 public:
  ~made_files() {
    std::error_code ignored;
    for (const fs::path& path : paths_) fs::remove(path, ignored);
    if (!dir_.empty()) fs::remove(dir_, ignored);
  }
  made_files() = default;
  made_files(const made_files&) = delete;
  made_files& operator=(const made_files&) = delete;

  void add(fs::path path) { paths_.push_back(std::move(path)); }
  void add_dir(fs::path path) { dir_ = std::move(path); }
  void keep() {
    paths_.clear();
    dir_.clear();
  }

 private:
  std::vector<fs::path> paths_;
  fs::path dir_;
};

class output_file final {
 public:
  output_file(fs::path path, made_files& made) : path_(std::move(path)) {
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file_ >= 0) made.add(path_);
  }
  ~output_file() {
    if (file_ >= 0) ::close(file_);
  }
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;

  result<void> write(std::span<const std::byte> data) {
    while (file_ >= 0 && !data.empty()) {
      const ssize_t done = ::write(file_, data.data(), data.size());
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) return refused();
      data = data.subspan(static_cast<std::size_t>(done));
    }
    return file_ < 0 ? refused() : result<void>();
  }

  result<void> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

  result<void> close() {
    const int file = std::exchange(file_, -1);
    return ::fsync(file) != 0 || ::close(file) != 0 ? refused() : result<void>();
  }

 private:
  result<void> refused() const {
    return fail(errc::io, "cannot write " + path_.string() + ": " + std::strerror(errno));
  }

  fs::path path_;
  int file_;
};

using shard = std::span<const named_tensor>;

std::int64_t bytes_of(const named_tensor& t) {
  return plan_of(t.name, t.shape, t.how).bytes;
}

std::vector<shard> cut(const std::vector<named_tensor>& tensors, std::int64_t shard_bytes) {
  std::vector<shard> out;
  std::size_t first = 0;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t more = bytes_of(tensors[i]);
    if (i > first && bytes + more > shard_bytes) {
      out.push_back(shard(tensors).subspan(first, i - first));
      first = i;
      bytes = 0;
    }
    bytes += more;
  }
  out.push_back(shard(tensors).subspan(first));
  return out;
}

std::string numbered(std::size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

std::string header_of(shard tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::int64_t at = 0;
  for (const named_tensor& t : tensors) {
    const auto plan = plan_of(t.name, t.shape, t.how);
    header += ",\"" + t.name + R"(":{"dtype":")" + std::string(plan.dtype) + R"(","shape":[)";
    for (std::size_t i = 0; i < t.shape.size(); ++i)
      header += (i > 0 ? "," : "") + std::to_string(t.shape[i]);
    header += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(at + plan.bytes) + "]}";
    at += plan.bytes;
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');  // so that the data is aligned
  std::string length(8, '\0');
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<char>(header.size() >> (8 * i) & 0xFFU);
  return length + header;
}

// Writes shards one piece at a time.
class writer final {
 public:
  writer(const write_options& options, std::int64_t all, made_files& made)
      : options_(options), all_(all), made_(made), pool_(options.threads), piece_(k_piece_bytes) {}

  result<void> write(const fs::path& path, shard tensors) {
    output_file file(path, made_);
    if (auto head = file.write(header_of(tensors)); !head) return head;
    for (const named_tensor& t : tensors) {
      const auto bytes = static_cast<std::size_t>(bytes_of(t));
      for (std::size_t at = 0; at < bytes; at += k_piece_bytes) {
        if (options_.stopped && options_.stopped()) return fail(errc::stopped, "stopped; nothing is left");
        const std::span part(piece_.data(), std::min(k_piece_bytes, bytes - at));
        fill_tensor(t.name, t.shape, t.how, options_.seed, at, part, pool_);
        if (auto body = file.write(std::span<const std::byte>(part)); !body) return body;
        done_ += static_cast<std::int64_t>(part.size());
        if (options_.told) options_.told(done_, all_);
      }
    }
    return file.close();
  }

 private:
  const write_options& options_;
  std::int64_t all_;
  std::int64_t done_ = 0;
  made_files& made_;
  kernels::thread_pool pool_;
  std::vector<std::byte> piece_;
};

result<void> prepare(const write_options& options, std::int64_t bytes, made_files& made) {
  std::error_code ec;
  if (fs::create_directories(options.out_dir, ec)) made.add_dir(options.out_dir);
  if (ec) return fail(errc::io, "cannot make " + options.out_dir.string() + ": " + ec.message());
  if (!fs::is_empty(options.out_dir, ec) || ec)
    return fail(errc::io, options.out_dir.string() + " is not empty: name a new folder");
  const auto space = fs::space(options.out_dir, ec);
  if (!ec && space.available < static_cast<std::uintmax_t>(bytes + k_free_margin_bytes)) {
    return fail(errc::io, "the checkpoint takes " + std::to_string(bytes) + " bytes; " +
                              options.out_dir.string() + " has " + std::to_string(space.available) + " free");
  }
  return {};
}

}  // namespace

result<std::vector<named_tensor>> tensors_of(const model::model_config& config) {
  auto source = std::make_shared<recorder>();
  const auto bound = model::bind_weights(config, source);
  if (!bound) return std::unexpected(bound.error());
  return std::move(source->seen);
}

result<written> write_checkpoint(const write_options& options) {
  const auto text = model::read_file(options.config_file, model::k_config_bytes_max);
  if (!text) return std::unexpected(text.error());
  const auto config = model::parse_model_config(*text);
  if (!config) return std::unexpected(config.error());
  const auto tensors = tensors_of(*config);
  if (!tensors) return std::unexpected(tensors.error());
  written out{.tensors = static_cast<std::int64_t>(tensors->size())};
  for (const named_tensor& t : *tensors) out.bytes += bytes_of(t);
  made_files made;
  if (auto ready = prepare(options, out.bytes, made); !ready) return std::unexpected(ready.error());

  const auto shards = cut(*tensors, options.shard_bytes);
  out.shards = static_cast<std::int64_t>(shards.size());
  writer files(options, out.bytes, made);
  std::string map;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = "model-" + numbered(i + 1) + "-of-" + numbered(shards.size()) + ".safetensors";
    if (auto done = files.write(options.out_dir / name, shards[i]); !done)
      return std::unexpected(done.error());
    for (const named_tensor& t : shards[i])
      map += (map.empty() ? "\"" : ",\"") + t.name + "\":\"" + name + '"';
  }
  const auto small = [&options, &made](const char* name, const std::string& content) -> result<void> {
    output_file file(options.out_dir / name, made);
    if (auto body = file.write(content); !body) return body;
    return file.close();
  };
  const auto index =
      R"({"metadata":{"total_size":)" + std::to_string(out.bytes) + R"(},"weight_map":{)" + map + "}}";
  if (auto done = small("model.safetensors.index.json", index); !done) return std::unexpected(done.error());
  if (auto done = small("config.json", *text); !done) return std::unexpected(done.error());
  made.keep();
  return out;
}

}  // namespace weir::engine::synth
