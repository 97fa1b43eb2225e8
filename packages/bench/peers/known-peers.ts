/** Other gateways that benchmarks start: their commands and their sources. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface PeerSite {
  readonly port: number
  readonly metricsPort: number
  readonly engines: readonly string[]
  /** Folder for its files. */
  readonly folder: string
  /** Text after `:` in its name. */
  readonly policy: string
  /** Model of the engines. */
  readonly model: string
}

export interface Peer {
  /** How to install it. */
  readonly from: string
  /** Python environment in the folder of installed peers. */
  readonly environment?: string
  readonly command: (site: PeerSite) => readonly [program: string, ...args: string[]]
  readonly env?: Readonly<Record<string, string>>
  /** Required headers of each request, as lines of a head. */
  readonly head?: (engines: readonly string[]) => string
}

/** Flags that the routers in Rust share. They log warnings only. */
function routerFlags({ port, metricsPort, engines, policy }: PeerSite, level: string): string[] {
  return [
    ['--host', '127.0.0.1', '--port', String(port), '--prometheus-port', String(metricsPort)],
    ['--policy', policy || 'round_robin', '--log-level', level],
    ['--worker-urls', ...engines],
  ].flat()
}

const CHECK_EACH_SECOND = ['--worker-startup-check-interval', '1']

export const peers: Readonly<Record<string, Peer>> = {
  'vllm-router': {
    from: 'pip install vllm-router',
    environment: 'v-vllm',
    command: (site) => ['vllm-router', ...CHECK_EACH_SECOND, ...routerFlags(site, 'warning')],
  },
  smg: {
    from: 'pip install smg==1.13.0',
    environment: 'v-smg',
    command: (site) => ['smg', 'launch', ...routerFlags(site, 'warn')],
  },
  'sglang-router': {
    from: 'pip install sglang-router',
    environment: 'v-sgl',
    command: (site) => [
      'python',
      '-m',
      'sglang_router.launch_router',
      ...CHECK_EACH_SECOND,
      ...routerFlags(site, 'warn'),
    ],
  },
  nginx: {
    from: 'the package nginx of the system',
    command: ({ port, engines, folder }) => {
      const file = join(folder, 'nginx.conf')
      writeFileSync(file, nginxConf(port, engines, folder))
      return ['nginx', '-e', join(folder, 'nginx-error.log'), '-c', file]
    },
  },
  litellm: {
    from: "pip install 'litellm[proxy]'",
    environment: 'v-lite',
    env: {
      LITELLM_LOG: 'ERROR',
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      LITELLM_MODE: 'PRODUCTION',
      LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY: 'true',
    },
    command: ({ port, engines, folder, model }) => {
      const file = join(folder, 'litellm.json')
      const list = engines.map((url) => ({
        model_name: model,
        litellm_params: { model: `openai/${model}`, api_base: `${url}/v1`, api_key: 'none' },
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
