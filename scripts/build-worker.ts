/** Builds a Worker with wrangler, as `wrangler deploy` does, without uploading it. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const root = fileURLToPath(new URL('..', import.meta.url))
const wrangler = fileURLToPath(new URL('../node_modules/wrangler/bin/wrangler.js', import.meta.url))

/** Prevents requests and log files of wrangler. */
const OFFLINE = {
  WRANGLER_SEND_METRICS: 'false',
  WRANGLER_SEND_ERROR_REPORTS: 'false',
  WRANGLER_WRITE_LOGS: 'false',
  WRANGLER_HIDE_BANNER: 'true',
}

/**
 * Builds the Worker into `outdir` and returns the text of its module.
 * @param entry path of another entry than the `main` of wrangler.toml
 * Rejects with wrangler's output when the build fails.
 */
export async function buildWorker(outdir: string, entry?: string): Promise<string> {
  const args = ['deploy', ...(entry === undefined ? [] : [entry]), '--dry-run', '--outdir', outdir]
  await promisify(execFile)(process.execPath, [wrangler, ...args], { cwd: root, env: { ...process.env, ...OFFLINE } })
  const name = basename(entry ?? 'worker.ts').replace(/\.\w+$/, '.js')
  return readFileSync(`${outdir}/${name}`, 'utf8')
}
