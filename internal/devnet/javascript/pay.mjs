// Pays on a development network through Stellar's own JavaScript SDK, as any program would: creates a key
// pair, has friendbot fund it, pays with a memo to a muxed address, and polls until the ledger is closed.
// Arguments: the RPC URL. Prints what it did as one line of JSON.
import {
  Asset, BASE_FEE, Horizon, Keypair, Memo, MuxedAccount, Operation, TransactionBuilder, rpc,
} from '@stellar/stellar-sdk';

const url = process.argv[2];
const server = new rpc.Server(url, { allowHttp: true });
const { passphrase } = await server.getNetwork();

const payer = Keypair.random();
const wallet = Keypair.random();
await server.requestAirdrop(payer.publicKey());
await server.requestAirdrop(wallet.publicKey());

const account = await server.getAccount(payer.publicKey());
const destination = new MuxedAccount(new Horizon.AccountResponse({ account_id: wallet.publicKey(), sequence: '0', signers: [], balances: [] }), '18446744073709551615').accountId();

async function submit(build) {
  const tx = build(new TransactionBuilder(account, { fee: BASE_FEE, networkPassphrase: passphrase })).setTimeout(60).build();
  tx.sign(payer);
  const sent = await server.sendTransaction(tx);
  if (sent.status !== 'PENDING') throw new Error(`sendTransaction answered ${sent.status}`);
  const done = await server.pollTransaction(sent.hash, { attempts: 100, sleepStrategy: () => 50 });
  return { hash: sent.hash, status: done.status, ledger: done.ledger };
}

const paid = await submit((b) => b
  .addOperation(Operation.payment({ destination, asset: Asset.native(), amount: '12.5' }))
  .addMemo(Memo.text('from JavaScript')));
const failed = await submit((b) => b.addOperation(Operation.payment({ destination, asset: Asset.native(), amount: '99999999' })));

const entry = await server.getAccountEntry(wallet.publicKey());

console.log(JSON.stringify({
  destination, balance: entry.balance().toString(), paid, failed,
}));
