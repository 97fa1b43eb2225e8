/** Builds dist/worker before the tests of project `node` if a source is newer, so that no test runs an old Worker. */
import { readdirSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { buildWorker } from '../../scripts/build-worker.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

export default async function setup(): Promise<void> {
  const built = statSync(`${root}dist/worker/worker.js`, { throwIfNoEntry: false })?.mtimeMs ?? 0
  if (newestSourceMs() > built) await buildWorker(`${root}dist/worker`)
}

function newestSourceMs(): number {
  const files = ['src', 'durable'].flatMap((folder) =>
    readdirSync(`${root}${folder}`, { recursive: true, encoding: 'utf8' }).map((name) => `${root}${folder}/${name}`),
  )
  const sources = files.filter((file) => file.endsWith('.ts'))
  return Math.max(
    ...[...sources, `${root}wrangler.toml`, `${root}package-lock.json`].map((file) => statSync(file).mtimeMs),
  )
}
