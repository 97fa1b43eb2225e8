/** Other gateways, started as their documentation describes. Their programs must be on the path. */
import { spawn } from 'node:child_process'
import { mkdirSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freeAddress } from '../../../src/platform/node/threads/free-address.ts'
import { guard, type StartedProcess } from './processes.ts'

interface Site {
  readonly port: number
  readonly engines: readonly string[]
  /** Folder for its files. */
  readonly folder: string
  /** Text after `:` in its name. */
  readonly policy: string
}

interface Peer {
  /** Source of its program. */
  readonly from: string
  readonly command: (site: Site) => readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Required headers of each request, as lines of a head. */
  readonly head?: (engines: readonly string[]) => string
}

/** The two Rust routers have the same flags. */
const router = (program: readonly string[], level: string) => {
  return ({ port, engines, policy }: Site): string[] =>
    [
      program,
      ['--host', '127.0.0.1', '--port', String(port), '--prometheus-port', String(port + 1)],
      ['--policy', policy || 'round_robin', '--log-level', level, '--worker-startup-check-interval', '1'],
      ['--worker-urls', ...engines],
    ].flat()
}

export const peers: Readonly<Record<string, Peer>> = {
  'vllm-router': { from: 'pip install vllm-router', command: router(['vllm-router'], 'warning') },
  'sglang-router': {
    from: 'pip install sglang-router',
    command: router(['python', '-m', 'sglang_router.launch_router'], 'warn'),
  },
  nginx: {
    from: 'nginx',
    command: ({ port, engines, folder }) => {
      const file = join(folder, 'nginx.conf')
      writeFileSync(file, nginxConf(port, engines, folder))
      return ['nginx', '-e', join(folder, 'nginx-error.log'), '-c', file]
    },
  },
  litellm: {
    from: "pip install 'litellm[proxy]'",
    env: {
      LITELLM_LOG: 'ERROR',
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      LITELLM_MODE: 'PRODUCTION',
      LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY: 'true',
    },
    command: ({ port, engines, folder }) => {
      const file = join(folder, 'litellm.json')
      const list = engines.map((url) => ({
        model_name: 'fake',
        litellm_params: { model: 'openai/fake', api_base: `${url}/v1`, api_key: 'none' },
      }))
      writeFileSync(file, JSON.stringify({ model_list: list, litellm_settings: { telemetry: false, num_retries: 2 } }))
      return ['litellm', '--config', file, '--host', '127.0.0.1', '--port', String(port), '--telemetry', 'False']
    },
  },
  portkey: {
    from: 'npm install @portkey-ai/gateway, its folder as PORTKEY',
    env: { TRUSTED_CUSTOM_HOSTS: '127.0.0.1,localhost', NODE_ENV: 'production' },
    command: ({ port }) => [
      'node',
      join(process.env['PORTKEY'] ?? '.', 'build/start-server.js'),
      `--port=${port}`,
      '--headless',
    ],
    head: (engines) => {
      const targets = engines.map((url) => ({
        provider: 'openai',
        custom_host: `${url}/v1`,
        api_key: 'none',
        weight: 1,
      }))
      return `x-portkey-config: ${JSON.stringify({ strategy: { mode: 'loadbalance' }, targets })}\r\n`
    },
  },
}

function nginxConf(port: number, engines: readonly string[], folder: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((kind) => `${kind}_temp_path ${folder}/${kind};`)
    .join(' ')
  const servers = engines.map((url) => `server ${url.replace('http://', '')};`).join(' ')
  return `daemon off; worker_processes 2; pid ${folder}/nginx.pid; error_log ${folder}/nginx-error.log error;
events { worker_connections 4096; }
http {
  access_log off; client_body_buffer_size 512k; client_max_body_size 64m; keepalive_requests 1000000; ${temporary}
  upstream engines { ${servers} keepalive 256; keepalive_requests 1000000; }
  server { listen 127.0.0.1:${port}; location / { proxy_pass http://engines; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; } }
}
`
}

export interface StartedPeer extends StartedProcess {
  readonly head: string
}

/** `NAME` or `NAME:POLICY`. Resolves when it responds to a chat; rejects with the end of its log. */
export async function startPeer(name: string, engines: readonly string[], base: string): Promise<StartedPeer> {
  const [kind = '', policy = ''] = name.split(':')
  const peer = peers[kind]
  if (peer === undefined) throw new Error(`No peer is called '${kind}'. Known: ${Object.keys(peers).join(', ')}.`)
  const folder = join(base, name.replace(':', '-'))
  mkdirSync(folder)
  const port = await freePort()
  const [program, ...args] = peer.command({ port, engines, folder, policy })
  const log = join(folder, 'log')
  const child = spawn(program!, args, {
    stdio: ['ignore', openSync(log, 'w'), openSync(log, 'a')],
    env: { ...process.env, ...peer.env },
  })
  const failed = new Promise<never>((_, reject) => {
    child.once('error', () => reject(new Error(`'${program}' is not on the path. ${name} comes from: ${peer.from}`)))
    child.once('exit', (code) => reject(new Error(`${name} ended with ${code}; its log: ${log}`)))
  })
  failed.catch(() => {})
  const stop = guard(child)
  const head = peer.head?.(engines) ?? ''
  await Promise.race([answering(port, head), failed])
  return { pid: child.pid!, port, stop, head }
}

async function answering(port: number, head: string): Promise<void> {
  const headers = Object.fromEntries([
    ['content-type', 'application/json'],
    ...(head === '' ? [] : [/^([^:]+): (.*)\r\n$/.exec(head)!.slice(1, 3)]),
  ]) as Record<string, string>
  const body = JSON.stringify({ model: 'fake', stream: true, messages: [{ role: 'user', content: 'hi' }] })
  for (let tries = 0; tries < 300; tries++) {
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers,
      body,
      signal: AbortSignal.timeout(2000),
    }).catch(() => null)
    await response?.body?.cancel()
    if (response?.status === 200) return
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  throw new Error('it did not answer a chat within a minute')
}

/** Two free neighbouring ports: routers use one for their metrics. */
async function freePort(): Promise<number> {
  for (;;) {
    const { port } = await freeAddress({ host: '127.0.0.1', port: 0 })
    if (port < 65_000) return port
  }
}
