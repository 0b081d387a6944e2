// What grpc++ does at best in the three patterns of communication: a server and a client that do
// nothing else.
//
//   baseline serve PORT
//   baseline load PORT each|all|none OPERATIONS BATCH ROW_BYTES hints|plain
//
// The client prints how many seconds it took. With hints, it asks for messages to be put together
// before they are sent; only where no answers flow the other way meanwhile, which then may starve.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "patterns.grpc.pb.h"

using patterns::Operations;
using Stream = grpc::ServerReaderWriter<Operations, Operations>;

namespace {

class Baseline final : public patterns::Patterns::Service {
  grpc::Status Each(grpc::ServerContext*, Stream* stream) override {
    Operations operations;
    while (stream->Read(&operations)) stream->Write(operations);
    return grpc::Status::OK;
  }

  grpc::Status All(grpc::ServerContext*, Stream* stream) override {
    std::vector<Operations> all;
    Operations operations;
    while (stream->Read(&operations)) all.push_back(std::move(operations));
    for (const Operations& answer : all) stream->Write(answer);
    return grpc::Status::OK;
  }

  grpc::Status None(grpc::ServerContext*, Stream* stream) override {
    Operations operations;
    while (stream->Read(&operations)) {
    }
    return grpc::Status::OK;
  }
};

int Serve(const std::string& address) {
  Baseline service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) return 1;
  std::printf("Ready.\n");
  std::fflush(stdout);
  server->Wait();
  return 0;
}

int Load(const std::string& address, const std::string& pattern, long operations, long batch,
         long row_bytes, bool hints) {
  auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  auto stub = patterns::Patterns::NewStub(channel);
  grpc::ClientContext context;
  grpc::WriteOptions options;
  if (hints) options.set_buffer_hint();
  Operations request, answer;
  for (long row = 0; row < batch; ++row) request.add_rows(std::string(row_bytes, 'r'));
  const auto began = std::chrono::steady_clock::now();
  auto stream = pattern == "each"  ? stub->Each(&context)
                : pattern == "all" ? stub->All(&context)
                                   : stub->None(&context);
  long answered = 0;
  for (long sent = 0; sent < operations; sent += batch) {
    if (!stream->Write(request, options)) return 1;
    if (pattern == "each" && stream->Read(&answer)) answered += answer.rows_size();
  }
  stream->WritesDone();
  while (stream->Read(&answer)) answered += answer.rows_size();
  const bool good = stream->Finish().ok() && answered == (pattern == "none" ? 0 : operations);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
  std::printf("%.6f\n", taken.count());
  return good ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  const std::string address = std::string("127.0.0.1:") + arguments[2];
  if (count == 3) return Serve(address);
  if (count < 8) return 2;
  return Load(address, arguments[3], std::atol(arguments[4]), std::atol(arguments[5]),
              std::atol(arguments[6]), std::string(arguments[7]) == "hints");
}
