/** The coding agents, unchanged from npm: versions, configuration, and the commands of a task's two turns. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export const MODEL = 'coder'

export interface Setting {
  /** Root URL of the gateway. */
  readonly url: string
  readonly key: string
  /** Folder of the task. */
  readonly work: string
  /** Folder for the agent's own files. */
  readonly home: string
  /** Of the agent's server. */
  readonly port: number
}

export interface Agent {
  readonly name: string
  readonly title: string
  /** npm package and the version that was tried. */
  readonly package: string
  readonly version: string
  readonly program: string
  /** Path of the protocol it speaks. */
  readonly path: string
  env(setting: Setting): Readonly<Record<string, string>>
  /** Writes its configuration. */
  configure(setting: Setting): void
  /** Arguments of a server for all conversations. Absent: each turn is a process of its own. */
  server?(setting: Setting): readonly string[]
  /** Arguments of the first turn, and of one that continues the conversation. */
  first(prompt: string, setting: Setting): readonly string[]
  next(prompt: string, setting: Setting): readonly string[]
}

const claudeTools = ['--allowedTools', 'Read', 'Edit', 'Bash']

const claudeCode: Agent = {
  name: 'claude-code',
  title: 'Claude Code',
  package: '@anthropic-ai/claude-code',
  version: '2.1.197',
  program: 'claude',
  path: '/v1/messages',
  env: ({ url, key }) => ({
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: key,
    ANTHROPIC_MODEL: MODEL,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
  }),
  configure: () => {},
  first: (prompt) => ['-p', prompt, ...claudeTools],
  next: (prompt) => ['-p', prompt, '--continue', ...claudeTools],
}

const codexFlags = ['--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox']

const codex: Agent = {
  name: 'codex',
  title: 'Codex',
  package: '@openai/codex',
  version: '0.171.0',
  program: 'codex',
  path: '/v1/responses',
  env: ({ key, home }) => ({ FIRSTLIGHT_KEY: key, CODEX_HOME: join(home, 'codex') }),
  configure({ url, home }) {
    mkdirSync(join(home, 'codex'), { recursive: true })
    const lines = [
      `model = "${MODEL}"`,
      'model_provider = "firstlight"',
      '[model_providers.firstlight]',
      'name = "Firstlight"',
      `base_url = "${url}/v1"`,
      'env_key = "FIRSTLIGHT_KEY"',
      'wire_api = "responses"',
      '[analytics]',
      'enabled = false',
    ]
    writeFileSync(join(home, 'codex/config.toml'), `${lines.join('\n')}\n`)
  },
  first: (prompt) => ['exec', ...codexFlags, prompt],
  next: (prompt) => ['exec', 'resume', ...codexFlags, '--last', prompt],
}

const openCodeFlags = ({ port, work }: Setting): readonly string[] => [
  '--attach',
  `http://127.0.0.1:${port}`,
  '--dir',
  work,
  '-m',
  `firstlight/${MODEL}`,
]

const openCode: Agent = {
  name: 'opencode',
  title: 'OpenCode',
  package: 'opencode-ai',
  version: '1.18.33',
  program: 'opencode',
  path: '/v1/chat/completions',
  env: ({ home }) => ({
    OPENCODE_CONFIG: join(home, 'opencode.json'),
    OPENCODE_DISABLE_AUTOUPDATE: '1',
    OPENCODE_DISABLE_MODELS_FETCH: '1',
  }),
  configure({ url, key, home }) {
    const provider = {
      npm: '@ai-sdk/openai-compatible',
      name: 'Firstlight',
      options: { baseURL: `${url}/v1`, apiKey: key },
      models: { [MODEL]: { name: MODEL, limit: { context: 200_000, output: 8_000 } } },
    }
    const config = {
      $schema: 'https://opencode.ai/config.json',
      autoupdate: false,
      share: 'disabled',
      permission: { edit: 'allow', bash: 'allow' },
      provider: { firstlight: provider },
    }
    writeFileSync(join(home, 'opencode.json'), JSON.stringify(config, null, 1))
  },
  // A turn without a server takes four times the CPU.
  server: ({ port }) => ['serve', '--port', String(port)],
  first: (prompt, setting) => ['run', ...openCodeFlags(setting), prompt],
  next: (prompt, setting) => ['run', '-c', ...openCodeFlags(setting), prompt],
}

export const agents: readonly Agent[] = [claudeCode, codex, openCode]
