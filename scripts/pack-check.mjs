// `npm run pack:check`: packs, installs the tarball in an empty folder with dependencies from the npm registry, and
// runs it.
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'firstlight-install-'))
const run = (command, argv, cwd = folder) =>
  execFileSync(command, argv, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })

function expect(truth, message) {
  if (!truth) throw new Error(message)
  console.log(`ok  ${message}`)
}

/** Starts a command that listens, requests its models, and stops it. */
async function serves(argv, pattern, model) {
  const child = spawn('npx', ['--no-install', 'firstlight', ...argv], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  const exit = new Promise((resolve) => child.once('exit', resolve))
  let text = ''
  let url = null
  for await (const chunk of child.stdout) {
    text += chunk
    url = pattern.exec(text)?.[1] ?? null
    if (url !== null) break
  }
  expect(url !== null, `firstlight ${argv.join(' ')} listens`)
  const models = await (await fetch(`${url}/v1/models`)).json()
  expect(
    models.data.some(({ id }) => id === model),
    `and serves ${model} on ${url}`,
  )
  // npx runs the command as a child: the signal goes to the whole group, as from a terminal.
  process.kill(-child.pid, 'SIGINT')
  await exit
}

try {
  run('npm', ['pack', '--silent', '--pack-destination', folder], root)
  const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'))
  run('npm', ['init', '--yes'])
  run('npm', ['install', '--no-fund', '--no-audit', `./${tarball}`])
  expect(run('npx', ['--no-install', 'firstlight', '--help']).includes('Usage: firstlight'), 'firstlight --help')
  writeFileSync(
    join(folder, 'firstlight.yaml'),
    'listen: 127.0.0.1:0\nclusters: [{ id: one, pools: [{ model: m, engines: [{ id: a, url: ' +
      '"http://127.0.0.1:9" }] }] }]\n',
  )
  expect(run('npx', ['--no-install', 'firstlight', 'check']).includes('is valid'), 'firstlight check')
  await serves(['serve'], /"url":"(http:[^"]+)"/, 'm')
  await serves(['demo', '--listen', '127.0.0.1:0'], /API +(http:\S+)\/v1/, 'sim')
} finally {
  rmSync(folder, { recursive: true, force: true })
}
