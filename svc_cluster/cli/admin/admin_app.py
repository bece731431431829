"""`svc-cluster admin`: what an operator does by hand. Heavy imports happen inside the commands."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from svc_cluster.cli.admin.basin_commands import app as basin_app
from svc_cluster.cli.admin.cluster_commands import app as cluster_app
from svc_cluster.cli.admin.drain_commands import app as drain_app
from svc_cluster.cli.admin.leader_commands import app as leader_app
from svc_cluster.cli.admin.member_commands import app as member_app
from svc_cluster.cli.admin.node_commands import add_commands
from svc_cluster.cli.admin.rebalance_command import rebalance
from svc_cluster.cli.admin.upgrade_commands import upgrade_app
from svc_cluster.cli.admin.votes_commands import app as catalog_app
from svc_cluster.cli.output_form import Output, OutputForm, Teller
from svc_cluster.cli.processes.process import fail

if TYPE_CHECKING:
    from svc_cluster.cli.admin.authority import Authority

app = typer.Typer(no_args_is_help=True, help="Administration by hand.")
ca_app = typer.Typer(no_args_is_help=True, help="Certificates for a cluster without a PKI.")
app.add_typer(ca_app, name="ca")
audit_app = typer.Typer(no_args_is_help=True, help="Audit logs.")
app.add_typer(audit_app, name="audit")
app.add_typer(cluster_app, name="cluster")
app.add_typer(upgrade_app, name="upgrade")
add_commands(app)
app.add_typer(member_app, name="member")
app.add_typer(leader_app, name="leader")
app.add_typer(basin_app, name="basin")
app.add_typer(catalog_app, name="catalog")
app.add_typer(drain_app, name="node")
app.command("rebalance")(rebalance)


@app.command("bootstrap")
def bootstrap(
    out: Annotated[
        Path,
        typer.Option(help="The directory; what is there stays, but certificates near their end."),
    ],
    ca: Annotated[
        Path | None,
        typer.Option(help="Where the CA is kept, away from the nodes. Default: OUT/ca."),
    ] = None,
    nodes: Annotated[int, typer.Option(help="Certificates for the nodes 1 to N.", min=1)] = 3,
    public_name: Annotated[
        list[str] | None,
        typer.Option(help="A host name or IP address of the clients' port; may be repeated."),
    ] = None,
    output: Output = OutputForm.TABLE,
) -> None:
    """Make what a new cluster needs, a CA, certificates, the cluster's secret and the root token.
    Later it renews the certificates that end within 30 days."""
    from svc_cluster.cli.admin.authority import AuthorityError
    from svc_cluster.cli.admin.bootstrap import bootstrap as fill

    try:
        made = fill(out, ca or out / "ca", range(1, nodes + 1), public_name or ["localhost"])
    except AuthorityError as cause:
        fail(str(cause), 1)
        raise
    told = f"{out}: made {', '.join(made)}" if made else f"{out}: everything is there already"
    Teller(output).end({"directory": str(out), "made": list(made)}, [told])


Directory = Annotated[Path, typer.Option("--ca", help="The CA's directory.")]


@ca_app.command("init")
def ca_init(directory: Directory = Path("ca"), output: Output = OutputForm.TABLE) -> None:
    """Make a CA: ca.pem, which every process gets, and ca.key, which none does."""
    from svc_cluster.cli.admin.authority import Authority, AuthorityError
    from svc_cluster.cli.processes.own_certificate import utc_now

    try:
        Authority.create(directory, utc_now)
    except AuthorityError as cause:
        fail(str(cause), 1)
    Teller(output).end(
        {"certificate": f"{directory}/ca.pem", "key": f"{directory}/ca.key"},
        [f"{directory}/ca.pem and {directory}/ca.key: keep the key away from the nodes"],
    )


@ca_app.command("issue")
def ca_issue(
    directory: Directory = Path("ca"),
    node: Annotated[
        list[int] | None, typer.Option(help="For the node of this id; may be repeated.", min=1)
    ] = None,
    gateway: Annotated[bool, typer.Option("--gateway", help="For a gateway.")] = False,
    administrator: Annotated[
        bool, typer.Option("--administrator", help="For whoever administers nodes.")
    ] = False,
    name: Annotated[
        list[str] | None,
        typer.Option(help="A host name or IP address that clients use; may be repeated."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Where tls.crt, tls.key and ca.crt are written.")
    ] = Path("certificate"),
    days: Annotated[int, typer.Option(help="How long it is valid, 1 to 3650.")] = 90,
    output: Output = OutputForm.TABLE,
) -> None:
    """Make a key and a certificate for what is named: tls.crt, tls.key and ca.crt in --out."""
    from svc_cluster.cli.admin.authority import AuthorityError, certificate_names, issue

    if administrator and (node or gateway):
        # it would be taken for the other one's: roles of one certificate are the least of them
        fail("--administrator stands alone: make the other certificate in another --out", 2)
    names = certificate_names(
        node or (), gateway=gateway, administrator=administrator, names=name or ()
    )
    if not names:
        fail(
            "a certificate is for something: use --node ID, --gateway, --administrator or "
            "--name HOST",
            2,
        )
    try:
        issue(_authority(directory), names, out, days=days)
    except AuthorityError as cause:
        fail(str(cause), 1)
    Teller(output).end(
        {"certificate": f"{out}/tls.crt", "names": list(names), "days": days},
        [f"{out}/tls.crt for {', '.join(names)}, valid for {days} days"],
    )


def _authority(directory: Path) -> Authority:
    from svc_cluster.cli.admin.authority import Authority
    from svc_cluster.cli.processes.own_certificate import utc_now

    return Authority(directory, utc_now)


@app.command("root-token")
def root_token(
    data_dir: Annotated[
        Path, typer.Argument(help="The data directory of any one node, running or not.")
    ],
    output: Output = OutputForm.TABLE,
) -> None:
    """Make a new root access token and show it, this once; the one before ends to be valid."""
    from svc_cluster.cli.processes.root_token import leave_change, new_secret

    if not (data_dir / "wal").is_dir():
        fail(f"{data_dir} is not the data directory of a node: name the data_dir of one", 2)
    secret = new_secret()
    try:
        leave_change(data_dir, secret, only_if_absent=False)
    except OSError as cause:
        fail(f"{data_dir} cannot be written to: {cause.strerror}", 1)
    told = "valid a few seconds after the node runs and the cluster has a leader"
    Teller(output).end({"access_token": secret}, [secret, told])


@app.command("new-token")
def new_token(output: Output = OutputForm.TABLE) -> None:
    """Make an access token for `root_token_file`; it means nothing until a cluster has it."""
    from svc_cluster.cli.processes.root_token import new_secret

    secret = new_secret()
    Teller(output).end({"access_token": secret}, [secret])


@audit_app.command("verify")
def audit_verify(
    files: Annotated[
        list[Path], typer.Argument(help="Audit logs of one chain, `.gz` too, in any order.")
    ],
    output: Output = OutputForm.TABLE,
) -> None:
    """Find lines that were changed, taken out, put in or moved: status 1 where there are some, 2
    where a file cannot be read."""
    from svc_cluster.cli.admin.audit_verify import verify

    try:
        report = verify(files)
    except (OSError, EOFError, zlib.error) as cause:  # a `.gz` may be cut, or damaged within
        where = getattr(cause, "filename", None) or ", ".join(str(each) for each in files)
        fail(f"{where} cannot be read: {getattr(cause, 'strerror', None) or cause}", 2)
    else:
        Teller(output).end(report.facts(), (*report.notes, *report.findings, report.summary))
        if report.findings:
            count = len(report.findings) + report.untold
            fail(f"{count} findings: the log is not as it was written", 1)
