/**
 * The frontend of NVIDIA Dynamo. It serves no engines of others, so its own simulated workers stand behind it, in another
 * process; only the frontend's CPU compares.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { guard } from '../proxy/processes.ts'
import { answersChat, endOf, freePort, type StartedPeer } from './start-peer.ts'

const WORKERS = 4

export interface DynamoOptions {
  /** `kv`, `round-robin`, … */
  readonly mode: string
  readonly model: string
  /** Folder for its files. */
  readonly work: string
  /** Folder with the Python environment `v-dynamo` and, as `dynamo-model`, a model's tokenizer and configuration. */
  readonly installed: string | null
}

/** Rejects with the reason if it does not start. */
export async function startDynamo({ mode, model, work, installed }: DynamoOptions): Promise<StartedPeer> {
  const program = join(installed ?? '.', 'v-dynamo', 'bin', 'python')
  const modelFolder = join(installed ?? '.', 'dynamo-model')
  for (const file of [program, join(modelFolder, 'tokenizer.json')])
    if (!existsSync(file))
      throw new Error(
        `${file} does not exist. Install ai-dynamo==1.6.1 in v-dynamo, and copy a model's folder without weights`,
      )
  const folder = join(work, `dynamo-${mode}`)
  mkdirSync(folder, { recursive: true })
  const planes = ['--discovery-backend', 'file', '--request-plane', 'tcp', '--event-plane', 'zmq']
  const start = (module: string, args: readonly string[]): ChildProcess => {
    const log = openSync(join(folder, `${module}.log`), 'a')
    const child = spawn(program, ['-m', module, ...args, ...planes], {
      stdio: ['ignore', log, log],
      env: { ...process.env, DYN_FILE_KV: join(folder, 'discovery'), DYN_LOG: 'warn' },
    })
    guard(child)
    return child
  }
  const limits = ['--num-gpu-blocks-override', '65536', '--block-size', '16', '--max-num-seqs', '1024']
  const fast = ['--num-workers', String(WORKERS), '--speedup-ratio', '1000', ...limits]
  const workers = start('dynamo.mocker', ['--model-path', modelFolder, '--model-name', model, ...fast])
  const port = await freePort()
  const address = ['--http-host', '127.0.0.1', '--http-port', String(port)]
  const frontend = start('dynamo.frontend', [...address, '--router-mode', mode])
  const end = async (): Promise<void> => {
    await Promise.all([endOf(frontend), endOf(workers)])
  }
  try {
    await answersChat(port, '', model)
  } catch (error) {
    await end()
    throw error
  }
  return { pid: frontend.pid!, port, head: '', stop: () => void end(), end }
}
