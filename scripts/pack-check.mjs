// `npm run pack:check`: packs, installs the tarball in an empty folder with dependencies from the npm registry, and
// runs it.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { lstatSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
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

/**
 * Lines of an installation that are no warnings of the package: npm reports `prepare` only for a tarball, and settings
 * of this machine.
 */
const EXPECTED = new RegExp(
  [
    '^added \\d+ packages in',
    '^npm warn Unknown (user|env) config',
    '^npm warn install-scripts( 1 package has|$| Run `npm)',
  ]
    .concat('^npm warn install-scripts   firstlight@')
    .join('|'),
)

/** Limit of production node_modules, bytes. */
const MAX_BYTES = 150 * 1024 * 1024

const bytesIn = (path) => {
  const found = lstatSync(path)
  if (!found.isDirectory()) return found.size
  return readdirSync(path).reduce((sum, name) => sum + bytesIn(join(path, name)), 0)
}

/** The package's entries and their types, for every way of importing an ESM package. */
function checkEntries(tarball) {
  run('npx', ['--yes', 'publint@0.3.25', '--strict', join(folder, tarball)])
  expect(true, 'publint --strict')
  run('npx', ['--yes', '@arethetypeswrong/cli@0.18.5', join(folder, tarball), '--profile', 'esm-only'])
  expect(true, 'attw --profile esm-only')
}

/** Installs as users do, with npm's default log level. */
function checkInstall(tarball) {
  const env = { ...process.env, npm_config_loglevel: 'notice' }
  const { status, stdout, stderr } = spawnSync('npm', ['install', '--no-fund', '--no-audit', `./${tarball}`], {
    cwd: folder,
    env,
    encoding: 'utf8',
  })
  expect(status === 0, 'npm install')
  const noise = `${stdout}${stderr}`.split('\n').filter((line) => line !== '' && !EXPECTED.test(line))
  expect(noise.length === 0, `npm install prints no warnings${noise.map((line) => `\n    ${line}`).join('')}`)
  const bytes = bytesIn(join(folder, 'node_modules'))
  expect(bytes <= MAX_BYTES, `node_modules has ${Math.round(bytes / 1024 / 1024)} MiB, at most 150`)
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
  checkEntries(tarball)
  checkInstall(tarball)
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
