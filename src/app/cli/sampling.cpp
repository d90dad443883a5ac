#include "app/cli/sampling.h"

#include "app/cli/values.h"

namespace fewbit::cli {

void SamplingOptions::add(CLI::App& app) {
  app.add_option("--temp", temp, "temperature; 0 = always the most likely token")->check(real(0.0, 100.0));
  app.add_option("--top-k", top_k, "draw from the k most likely tokens (0 = all)")->check(whole(0, 1 << 24));
  app.add_option("--top-p", top_p, "draw from the most likely tokens that make up this probability")->check(real(0.0, 1.0));
  app.add_option("--min-p", min_p, "drop tokens less likely than this share of the best")->check(real(0.0, 1.0));
  app.add_option("--repeat-penalty", repeat, "divide the logits of recent tokens (1 = off)")->check(real(0.01, 100.0));
  app.add_option("--presence-penalty", presence, "subtract from the logits of recent tokens")->check(real(-100.0, 100.0));
  app.add_option("--frequency-penalty", frequency, "subtract once for every recent occurrence")->check(real(-100.0, 100.0));
  app.add_option("--repeat-last-n", last_n, "how many tokens are recent (-1 = all, 0 = none)")->check(whole(-1, 1 << 24));
  app.add_option("--seed", seed, "the same seed gives the same text (-1: another one every time)")->check(whole(-1, INT64_MAX));
}

Result<runtime::SampleParams> SamplingOptions::resolve(const gguf::File& file) const {
  runtime::SampleParams p = runtime::sampling_defaults(file);
  if (temp) p.temperature = f32(*temp);
  if (top_k) p.top_k = *top_k;
  if (top_p) p.top_p = f32(*top_p);
  if (min_p) p.min_p = f32(*min_p);
  if (repeat) p.repeat_penalty = f32(*repeat);
  if (presence) p.presence_penalty = f32(*presence);
  if (frequency) p.frequency_penalty = f32(*frequency);
  if (last_n) p.penalty_last_n = *last_n;
  if (seed) p.seed = *seed;
  FEWBIT_OK(p.check());
  return p;
}

}  // namespace fewbit::cli
