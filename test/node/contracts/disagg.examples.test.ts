import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { ownPorts } from '../../own-ports.ts'

const run = promisify(execFile)

async function example(name: string, port: number): Promise<string> {
  const script = fileURLToPath(new URL(`../../../examples/${name}/run.mjs`, import.meta.url))
  const { stdout } = await run(process.execPath, [script, '--once', '--port', String(port)])
  return stdout
}

describe('the examples of split serving', () => {
  it('run the prefill on one engine and the decode on another if the prompt is long enough', async () => {
    const [, long, short] = (await example('prefill-decode', ownPorts(10))).split('curl -iN')
    expect(long).toMatch(
      /x-firstlight-prefill: prefill-\d\n +x-firstlight-engine: decode-\d\n.*prefill_leg;dur=.*\n +\w+( \w+){11}/,
    )
    expect(short).toMatch(/x-firstlight-engine: decode-\d/)
    expect(short).not.toMatch(/prefill_leg|x-firstlight-prefill/)
  }, 120_000)

  it('the examples of split serving encode a picture once', async () => {
    const [, first, second] = (await example('encode-pd', ownPorts(10))).split('curl -iN')
    expect(first).toMatch(/encode;dur=/)
    expect(first).toMatch(
      /"enc_queue_time_ms":[\d.]+,"enc_compute_time_ms":[\d.]+,"emb_cache_transfer_time_ms":[\d.]+,"prefill_queue_time_ms":[\d.]+,"prefill_compute_time_ms":[\d.]+,.*"ttft_ms":[\d.]+/,
    )
    expect(second).toMatch(/x-firstlight-engine: engine-\d/)
    expect(second).not.toMatch(/encode;dur=/)
  }, 120_000)
})
