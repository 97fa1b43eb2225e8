/** Replaces values that differ between recordings by fixed ones of the same type, in the engine's own bytes. */
interface Rule {
  readonly name: string
  readonly pattern: RegExp
  /** As for `String.replace`. */
  readonly value: string | ((found: string) => string)
}

const number = String.raw`-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?`

export const rules: readonly Rule[] = [
  { name: 'times of day are 0', pattern: /"(created|created_at|completed_at)":\d+/g, value: '"$1":0' },
  {
    name: 'measured times and rates are 0',
    pattern: new RegExp(
      String.raw`"(time_to_first_token_ms|generation_time_ms|queue_time_ms|mean_itl_ms|tokens_per_second)":${number}`,
      'g',
    ),
    value: '"$1":0',
  },
  {
    name: 'random ids are zeros',
    pattern: /\b(modelperm-|resp_|msg_|rs_|chatcmpl-tool-|call_|generate-tokens-)[0-9a-f]{16,32}\b/g,
    value: '$10000000000000000',
  },
  { name: 'local ports are 0', pattern: /\b(tcp|http):\/\/(127\.0\.0\.1|\*):\d+/g, value: '$1://$2:0' },
  // It differs between machines.
  {
    name: 'fingerprints of settings are zeros',
    pattern: /(?<="system_fingerprint":"vllm-[^"]*-)[0-9a-f]{8}(?=")/g,
    value: '00000000',
  },
  // The last digits depend on the order of summation in a batch.
  {
    name: 'long fractions have two digits',
    pattern: /(?<=[:[,] ?)-?\d+(?:\.\d{6,}(?:[eE][-+]?\d+)?|(?:\.\d+)?[eE]-\d+)(?=[,\]}])/g,
    value: (found) => String(Number(Number(found).toFixed(2)) || 0),
  },
]

export function normalise(text: string): string {
  return rules.reduce(
    (done, { pattern, value }) =>
      typeof value === 'string' ? done.replace(pattern, value) : done.replace(pattern, (found) => value(found)),
    text,
  )
}
