import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { commands as loadCommands, main } from '../../bin/commands.ts'

const commands = await loadCommands()
const folder = mkdtempSync(join(tmpdir(), 'firstlight-cli-'))
const secretConfig = join(folder, 'secret.yaml')
writeFileSync(
  secretConfig,
  'listen: 127.0.0.1:0\nadmin: { secret: { env: ADMIN } }\nclusters: [{ id: one, pools: [{ model: m, engines: [{ id: a, url: "http://h", key: hush }] }] }]\n',
)

async function run(
  argv: readonly string[],
  env: Record<string, string> = {},
): Promise<{ code: number; out: string; err: string }> {
  const out: string[] = []
  const err: string[] = []
  const stopped = AbortSignal.abort()
  const code = await main(argv, {
    out: (line) => out.push(line),
    err: (line) => err.push(line),
    env,
    stop: stopped,
    stopNow: stopped,
  })
  return { code, out: out.join('\n'), err: err.join('\n') }
}

describe('firstlight', () => {
  it('firstlight lists every command it has', async () => {
    const { code, out } = await run(['--help'])
    expect(code).toBe(0)
    const listed = out.split('\n').map((line) => line.trim().split(/ {2,}/))
    for (const { name, summary } of commands) expect(listed).toContainEqual([name, summary])
  })

  it.each(commands.map(({ name }) => name))('%s --help shows every flag and an example', async (name) => {
    const command = commands.find((one) => one.name === name)!
    for (const argv of [
      [name, '--help'],
      [name, '-h'],
      ['help', name],
    ]) {
      const { code, out } = await run(argv)
      expect(code).toBe(0)
      for (const flag of Object.keys(command.flags)) expect(out).toContain(`--${flag}`)
      expect(command.examples.length).toBeGreaterThan(0)
      for (const example of command.examples) expect(out).toContain(example)
    }
  })

  it.each(['bash', 'zsh', 'fish'])('firstlight prints a completion script for %s', async (shell) => {
    const { code, out } = await run(['completion', shell])
    expect(code).toBe(0)
    for (const { name } of commands) expect(out).toContain(name)
    expect(out).toContain('workers')
    expect((await run(['completion', 'tcsh'])).err).toContain('needs one shell, not "tcsh"')
  })

  it('firstlight prints its version and the commit', async () => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
      version: string
    }
    const { code, out } = await run(['--version'])
    expect(code).toBe(0)
    expect(out.replace(/ \(commit [0-9a-f]{12}\)$/, '')).toBe(version)
  })

  it.each([
    [['chekc'], 'no command "chekc"; did you mean "check"?'],
    [['check', '--jsn', 'x'], 'no flag --jsn; did you mean --json?'],
    [['check', '--json'], '--json needs a value, as in --json FILE'],
    [['fleet', '--prefill', '-1'], '--prefill needs a value, as in --prefill N'],
    [['fleet', '--prefill', '0', '--decode', '0'], 'number of engines is 0'],
    [['fleet', '--engines', '1.5'], '--engines must be a whole number, got "1.5"'],
    [['demo', '--engines', '2.5'], '--engines must be a whole number, got "2.5"'],
    [['serve', '--config', folder], `${folder} is a folder, not a file`],
    [['check', '--config='], 'no file ""'],
    [['check', secretConfig, '--without-env', '--json', '/nowhere/x.json'], '--json: there is no folder /nowhere'],
    [['doctor', 'http://127.0.0.1:1', '--json', folder], `--json: ${folder} is a folder`],
    [['vocab', 'show', '/nowhere/v'], 'no file /nowhere/v'],
    [['vocab', 'compile', folder, '-o', '/nowhere/v'], '--out: there is no folder /nowhere'],
    [
      ['vocab', 'compile', 'x', '-o', 'y', '--template', 't', '--no-template'],
      '--template has no effect with --no-template',
    ],
    [['replay', '--preset', 'burst', '--engines', '3'], '--engines has no effect with --preset'],
    [['replay', '--trace', 'x', '--load', '0.5', '--speed', '2'], '--speed has no effect with --load'],
    [['replay', '--trace', 'x', '--limit', '1.5'], '--limit must be a whole number'],
    [['load', '--model', 'm', '--trace', 'x', '--qps', '3'], '--qps has no effect with --trace'],
    [['calibrate', '--metrics', 'http://h', '--ranks', '2'], '--ranks has no effect with --metrics'],
    [['bridge', '--listen', 'here'], '--listen must be HOST:PORT, not "here"'],
    [['bridge', '--gateway', 'here'], '--gateway must be an http or https URL, not "here"'],
    [['load', '--model', 'm', '--url', 'http://me:hush@h'], '--url: the URL of h contains a user or password'],
    [['bridge', '--gateway', 'http://me:hush@h'], '--gateway: the URL of h contains a user or password'],
    [['bridge', '--topic', 'kv'], '--topic needs --events'],
    [
      ['bridge', '--events', 'here', '--cluster', 'c', '--model', 'm', '--engine', 'e', '--block-tokens', '16'],
      '--events must be an address to connect to, not "here"',
    ],
    [['bridge', '--config', secretConfig, '--engine', 'a', '--engine', 'b'], 'has no engine b'],
    [['check', 'a.yaml', 'b.yaml'], 'accepts one file'],
    [['check', 'a.yaml', '--config', 'b.yaml'], 'accepts one file'],
    [['serve', 'x.yaml'], 'accepts no argument "x.yaml"; did you mean --config x.yaml?'],
    [['key', 'a', 'b'], 'generates one key at a time'],
    [['demo', 'x.yaml'], 'accepts no argument "x.yaml".'],
    [['serve', '--config', '/nowhere/f.yaml'], 'no file /nowhere/f.yaml'],
  ])('%j ends with 2, a reason and a next step', async (argv, reason) => {
    const { code, out, err } = await run(argv)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    const [first, next] = err.split('\n')
    expect(first).toContain(reason)
    expect(next).toMatch(/\S/)
    expect(err).not.toContain('hush')
  })

  it.skipIf(!existsSync('/dev/full'))(
    'firstlight says before the work that a file cannot be written, and after it, with 1, that it could not be',
    async () => {
      const early = await run(['check', secretConfig, '--without-env', '--json', '/proc/nope'])
      expect(early).toEqual({
        code: 2,
        out: '',
        err: '--json: /proc/nope cannot be written (ENOENT).\nCheck permissions and free space, or name another file.',
      })
      const { code, out, err } = await run(['check', secretConfig, '--without-env', '--json', '/dev/full'])
      expect(code).toBe(1)
      expect(out).toContain('is valid')
      expect(err).toBe(
        '--json: /dev/full cannot be written (ENOSPC).\nCheck permissions and free space, or name another file.',
      )
    },
  )

  it('firstlight leaves no file behind when the work fails', async () => {
    const file = join(folder, 'never.json')
    expect((await run(['check', '--config', '/nowhere/f.yaml', '--json', file])).code).toBe(2)
    expect(existsSync(file)).toBe(false)
  })
})

describe('firstlight check', () => {
  it('firstlight check prints the parsed configuration without secrets', async () => {
    const { code, out } = await run(['check', secretConfig], { ADMIN: 'hush-too' })
    expect(code).toBe(0)
    expect(out).toContain('cluster one')
    expect(out).toContain('http://h')
    expect(out).not.toContain('hush')
    expect(out).toContain('body 32 MiB with 500,000 parse steps')
    expect(out).toContain('10,000 stored responses')
    expect(out).toContain('complete response 10 min, idle 1 min')
    expect(out).not.toContain('on Workers')
  })

  it('firstlight check names the listener’s certificate, and why it cannot be used on this machine', async () => {
    const file = join(folder, 'tls.yaml')
    const clusters = '[{ id: a, pools: [{ model: m, engines: [{ id: e, url: "http://h" }] }] }]'
    writeFileSync(file, `tls: { cert: no.pem, key: no.key }\nclusters: ${clusters}`)
    const { code, out } = await run(['check', file])
    expect(code).toBe(0)
    expect(out).toMatch(/tls +no\.pem/)
    expect(out).toContain(`note: tls.cert: ${join(folder, 'no.pem')}: cannot be read (ENOENT)`)
  })

  it('firstlight check requires the variables of secrets unless disabled', async () => {
    const missing = await run(['check', secretConfig])
    expect(missing.code).toBe(1)
    expect(missing.err).toContain('line 2: admin.secret.env: names ADMIN, which is not set')
    expect((await run(['check', secretConfig, '--without-env'])).code).toBe(0)
  })

  it('firstlight check warns about an engine without a substitute, but not if another cluster has its model', async () => {
    const cluster = (id: string, model: string) =>
      `{ id: ${id}, pools: [{ model: ${model}, engines: [{ id: a, url: "http://h" }] }] }`
    const file = join(folder, 'lone.yaml')
    writeFileSync(file, `clusters: [${cluster('one', 'm')}, ${cluster('two', 'm')}, ${cluster('three', 'n')}]`)
    const { out } = await run(['check', file])
    expect(out.match(/note: .*no failover.*/g)).toEqual([
      'note: three, n: there is one engine, so there is no failover.',
    ])
  })

  it('firstlight check lists settings that differ from the defaults, wherever they were set', async () => {
    const file = join(folder, 'set.yaml')
    writeFileSync(
      file,
      `listen: 0.0.0.0:8080
workers: 2
keys: [{ name: us, secret: hush-us }]
admin: { secret: hush-boss }
limits: { heartbeat_ms: 7000 }
log: { level: warn, stats_interval_s: 9 }
metrics: { key: hush }
bridge: { secret: hush }
ttft: { enabled: true, listen: 127.0.0.1:9999, ttl_s: 60 }
traces: { endpoint: http://collector, sample: 0.5 }
record: { file: traffic.jsonl, files: 7 }
clusters:
  - id: one
    weight: 0
    generation: 3
    pools:
      - model: m
        retry: { share: 0.5 }
        circuit: { failures: 9 }
        session: { header: X-Conversation, known: false }
        observe_share: 0.25
        engines:
          - { id: a, url: "http://localhost:8080", labels: { rack: r7 }, rtt_ms: 3, profile: h100-8b, kv_events: { endpoint: "tcp://a:1" } }
          - { id: b, url: "http://localhost:8081", prefix_caching: off, cache_blocks: 77, lmcache_instance: i }
`,
    )
    const { code, out } = await run(['check', file])
    expect(code).toBe(0)
    for (const text of [
      'workers  2',
      'heartbeat 7 s',
      'warn, statistics every 9 s',
      'metrics  with their key',
      'bridge   with its key',
      'stored for 1 min',
      'also at 127.0.0.1:9999 from anyone',
      'http://collector as firstlight, 50 %',
      'traffic.jsonl, 7 files',
      'weight      0',
      'generation  3',
      '50 % of requests',
      'circuit opens after 9',
      'header x-conversation\n',
      '25 % of streams',
      'rack=r7',
      'round trip 3 ms',
      'h100-8b',
      'KV events tcp://a:1',
      'prefix caching off',
      '77 blocks',
      'LMCache i',
    ]) {
      expect(out).toContain(text)
    }
    expect(out).not.toContain('hush')
    for (const note of ['one, a has the listen address of this gateway', 'one: has weight 0'])
      expect(out).toMatch(new RegExp(`note: .*${note}`))
  })

  it('firstlight check writes the same as JSON', async () => {
    const file = join(folder, 'understood.json')
    await run(['check', secretConfig, '--without-env', '--json', file])
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ clusters: [{ id: 'one', pools: [{ model: 'm' }] }] })
    expect(readFileSync(file, 'utf8')).not.toContain('hush')
  })

  it('firstlight check reads the document from the variable when no file is named', async () => {
    const document = readFileSync(secretConfig, 'utf8')
    expect((await run(['check'], { FIRSTLIGHT_CONFIG: document, ADMIN: 'x' })).code).toBe(0)
    expect((await run(['check', '--without-env'], { FIRSTLIGHT_CONFIG: document })).code).toBe(0)
  })
})

describe('firstlight fleet', () => {
  it('firstlight fleet reports an invalid report address', async () => {
    const { code, err } = await run(['fleet'], { TTFT_ENABLED: '1', VLLM_TTFT_REPORT_URL: 'here' })
    expect(code).toBe(2)
    expect(err).toContain('VLLM_TTFT_REPORT_URL is "here", which is not a URL')
  })
})

describe('firstlight serve', () => {
  it('firstlight serve rejects a public address without keys, also from a flag', async () => {
    const { code, err } = await run(['serve', '--config', secretConfig, '--listen', '0.0.0.0:0'], { ADMIN: 'x' })
    expect(code).toBe(2)
    expect(err).toContain('is reachable from other hosts')
  })

  it.each([
    ['listen: 127.0.0.1:8080', 'http://localhost:8080'],
    ['listen: localhost:8080', 'http://127.0.0.1:8080/'],
    ['listen: :8080\nopen: true', 'http://127.0.0.1:8080/base'],
    ['listen: "[::]:8080"\nopen: true', 'http://[::1]:8080'],
    ['listen: 10.1.2.3:80\nopen: true', 'http://10.1.2.3'],
    ['listen: 127.0.0.1:7', 'http://127.0.0.1:8080', '--listen', '127.0.0.1:8080'],
  ])('firstlight serve rejects an engine with the gateway’s own address: %s, %s', async (listen, url, ...flags) => {
    const file = join(folder, 'own.yaml')
    writeFileSync(
      file,
      `${listen}\nclusters: [{ id: one, pools: [{ model: m, engines: [{ id: a, url: "${url}" }] }] }]\n`,
    )
    const { code, err } = await run(['serve', '--config', file, ...flags])
    expect(code).toBe(2)
    expect(err).toContain('one, a has the listen address of this gateway')
  })

  it.each([
    ['127.0.0.1:7001', '127.0.0.1:7001'],
    ['localhost:7001', '127.0.0.1:7001'],
    ['127.0.0.1:7001', ':7001'],
  ])(
    'firstlight serve rejects a report port equal to its own, which threads would share: %s, %s',
    async (listen, reports) => {
      const document = `listen: ${listen}\nttft: { enabled: true, listen: "${reports}" }\nclusters: [{ id: one, pools: [{ model: m, engines: [{ id: a, url: "http://h" }] }] }]\n`
      expect(await run(['serve', '--workers', '2'], { FIRSTLIGHT_CONFIG: document })).toMatchObject({
        code: 2,
        err: expect.stringContaining('`ttft.listen` has the same port as `listen`') as string,
      })
      expect((await run(['check'], { FIRSTLIGHT_CONFIG: document })).out).toContain(
        'note: `ttft.listen` has the same port as `listen`',
      )
    },
  )

  it('firstlight serve shows the server of replicas without its password', async () => {
    const document = `listen: 127.0.0.1:0\nreplicas: { url: "rediss://fl:hush@valkey:6380" }\nclusters: [{ id: one, pools: [{ model: m, engines: [{ id: a, url: "http://h" }] }] }]\n`
    const { out } = await run(['check'], { FIRSTLIGHT_CONFIG: document })
    expect(out).toMatch(/^replicas +over rediss:\/\/valkey:6380$/m)
    expect(await run(['serve', '--replicas', 'valkey:6379'], { FIRSTLIGHT_CONFIG: document })).toMatchObject({
      code: 2,
      err: expect.stringContaining('--replicas must be the URL of a Valkey or Redis server') as string,
    })
  })

  it.each([
    ['listen: 127.0.0.1:8080', 'http://127.0.0.1:8080', '--listen', '127.0.0.1:0'],
    ['listen: 127.0.0.1:0', 'http://127.0.0.2:8080'],
  ])('firstlight serve serves an engine on another address: %s, %s', async (listen, url, ...flags) => {
    const file = join(folder, 'other.yaml')
    writeFileSync(
      file,
      `${listen}\nlog: { level: silent }\nclusters: [{ id: one, pools: [{ model: m, engines: [{ id: a, url: "${url}" }] }] }]\n`,
    )
    expect((await run(['serve', '--config', file, ...flags])).code).toBe(0)
  })

  it('starts, and exits with 0 when stopped', async () => {
    expect(await run(['serve', '--config', secretConfig, '--log-level', 'silent'], { ADMIN: 'x' })).toEqual({
      code: 0,
      out: '',
      err: '',
    })
  })
})
