/** Places in which a Worker can have its configuration, by the size of the document. */

/** Limit of a variable or secret of a Worker on both plans, bytes: Cloudflare's 5 KB. */
const VARIABLE_BYTES = 5_000

/** Limit of a value in KV and of a file in the assets, MiB. */
const VALUE_MIB = 25

export function workerStorageNotes(text: string): string[] {
  const bytes = new TextEncoder().encode(text).length
  const size = `the document has ${(bytes / 1000).toFixed(1)} kB`
  if (bytes > VALUE_MIB * 1024 * 1024)
    return [`${size}: KV and the assets of a Worker do not hold over ${VALUE_MIB} MiB.`]
  if (bytes <= VARIABLE_BYTES)
    return [`${size}: it fits the secret FIRSTLIGHT_CONFIG, KV, and the file that \`npm run deploy\` bundles.`]
  return [
    `${size}, and Cloudflare limits variables and secrets to 5 kB: FIRSTLIGHT_CONFIG cannot hold it. Store it in KV, ` +
      'or leave it as firstlight.yaml beside wrangler.toml: `npm run deploy` bundles it (docs/deploy-workers.md).',
  ]
}
