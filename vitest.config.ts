import { cloudflareTest } from '@cloudflare/vitest-plugin'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

// Nothing in the tests may look outside this machine.
Object.assign(process.env, {
  CLOUDFLARE_CF_FETCH_ENABLED: 'false',
  WRANGLER_SEND_METRICS: 'false',
  WRANGLER_SEND_ERROR_REPORTS: 'false',
  WRANGLER_WRITE_LOGS: 'false',
  DO_NOT_TRACK: '1',
})
// Processes and threads that tests start load the same sources again and again.
process.env['NODE_COMPILE_CACHE'] = fileURLToPath(new URL('node_modules/.cache/node-compile-cache', import.meta.url))

/** A machine that is busy with other work takes many times longer, and nothing is wrong. */
const patience = { testTimeout: 60_000, hookTimeout: 120_000, expect: { poll: { interval: 20, timeout: 30_000 } } }

/** Folders whose files wait for gateways, browsers and processes: a long one that starts last would run alone. */
const SLOW = /\/test\/(node\/contracts|browser|edge|tutorials|bench|node\/replicas)\//

const isFast = ({ moduleId }: TestSpecification): number => Number(!SLOW.test(moduleId))

class SlowFilesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).sort((a, b) => isFast(a) - isFast(b))
  }
}

// `npm test` runs the projects one after the other: workerd fetches its modules from this process, and a machine that
// is busy with the other project has made it load halves of two copies.
export default defineConfig({
  test: {
    sequence: { sequencer: SlowFilesFirst },
    projects: [
      {
        test: {
          name: 'node',
          environment: 'node',
          include: ['test/**/*.test.ts'],
          globalSetup: ['test/setup/built-worker.ts'],
          exclude: ['test/workers/**'],
          setupFiles: ['test/setup/reset-fixtures.ts'],
          // Files share a process: starting one and loading the modules costs more than most files take.
          isolate: false,
          // Many files wait most of the time.
          maxWorkers: Math.max(6, availableParallelism()),
          ...patience,
        },
      },
      {
        plugins: [cloudflareTest({ remoteBindings: false, wrangler: { configPath: './wrangler.toml' } })],
        test: {
          name: 'workers',
          include: ['test/workers/**/*.test.ts'],
          maxWorkers: 4,
          globalSetup: ['test/setup/scripted-engine.ts'],
          ...patience,
        },
      },
    ],
  },
})
