import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildWorker } from '../../scripts/build-worker.ts'

/** Text of a Worker in this folder, built with the settings of the gateway's own. */
export async function bundleOf(file: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-worker-'))
  try {
    return await buildWorker(folder, fileURLToPath(new URL(file, import.meta.url)))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
