/** A real Envoy in front of an endpoint picker. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type EnvoyMode, findEnvoy, startEnvoy } from '../epp/envoy.ts'
import { inCache } from './standalone.ts'

/** Runs with the URL of an Envoy that requests engines from the picker at this port. */
export async function throughEnvoy<Result>(
  pickerPort: number,
  mode: EnvoyMode,
  run: (url: string) => Promise<Result>,
): Promise<Result> {
  const { program } = findEnvoy(inCache('envoy', 'bin', 'envoy'))
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-envoy-'))
  try {
    const envoy = await startEnvoy({ program, folder, engines: [], pickers: [pickerPort] }, mode)
    try {
      return await run(`http://127.0.0.1:${envoy.port}`)
    } finally {
      envoy.stop()
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
